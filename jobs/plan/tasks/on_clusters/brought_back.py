"""The newest checkpoint of a task, out of a cluster's bucket into the task's own folder."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import Any

from slipway.containers.runtime.checkpoint import manifest
from slipway.containers.runtime.checkpoint.storage import step_name
from slipway.jobs.cloud import aws
from slipway.jobs.plan.tasks.saved_models import CHECKPOINTS
from slipway.jobs.plan.tasks.task import Task
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.inputs import JOB_PREFIXES
from slipway.jobs.words.targets import Target

_MANIFEST = re.compile(rf"step-([0-9]{{10}})/{manifest.NAME}", re.ASCII)
_DIGEST_LENGTH = 12


class NothingSaved(SlipwayError):
    """Reports a trained task without a checkpoint."""


def checkpoints_key(task: Task) -> str:
    """Return where a cluster's bucket keeps the task: the same task finds its own checkpoints again."""
    record = json.dumps(task.describe().identity(), sort_keys=True)
    digest = hashlib.sha256(record.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{JOB_PREFIXES[1]}tasks/{digest}"


def checkpoints_url(key: str, target: Target) -> str:
    return f"s3://{target.bucket}/{key}"


def bring_back(task: Task, target: Target) -> None:
    """Copy the newest checkpoint; its manifest is written last, so that a copy cut short is none."""
    s3, key = aws.reader("s3", target.region), checkpoints_key(task)
    owner = {"Bucket": target.bucket, "ExpectedBucketOwner": target.account}
    step = _newest(s3, owner, key)
    if step is None:
        raise NothingSaved(
            f"task '{task.name}' has no checkpoint at {checkpoints_url(key, target)}",
            hint="somebody removed it: give the task another save_dir, and orchestrate again",
        )
    begin = f"{key}/{step_name(step)}"
    content = s3.get_object(Key=f"{begin}/{manifest.NAME}", **owner)["Body"].read()
    found = manifest.decode(content, where=begin)
    folder = task.folder / CHECKPOINTS / step_name(step)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for rank, file in enumerate(found.ranks):
        files.append(replace(file, name=manifest.file_name(rank)))
        body = s3.get_object(Key=f"{begin}/{file.name}", **owner)["Body"]
        with (folder / files[-1].name).open("wb") as copy:
            for chunk in body.iter_chunks(1 << 20):
                copy.write(chunk)
    (folder / manifest.NAME).write_bytes(manifest.encode(replace(found, ranks=tuple(files))))


def _newest(s3: Any, owner: dict[str, str], key: str) -> int | None:
    pages = s3.get_paginator("list_objects_v2").paginate(Prefix=f"{key}/", **owner)
    names = [each["Key"].removeprefix(f"{key}/") for page in pages for each in page.get("Contents", [])]
    return max((int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name))), default=None)
