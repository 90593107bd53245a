"""Reads the training jobs of a cluster into Runs; the folders of its bucket name the jobs.

SageMaker lists all jobs of an account and filters by no tag; a cluster's bucket has only its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from slipway.containers.runtime.contract import variables
from slipway.jobs.cloud.aws import reader
from slipway.jobs.platforms.sagemaker.request import STATES, image_words
from slipway.jobs.words.images.containers import own_registry
from slipway.jobs.words.run import (
    SECONDS_PER_HOUR,
    Attempt,
    Found,
    JobState,
    Listed,
    Run,
    cost,
    price_of,
    translate,
)
from slipway.jobs.words.sagemaker import JOBS
from slipway.jobs.words.targets import SageMakerTarget

Description = Mapping[str, Any]  # an answer of DescribeTrainingJob

_UNKNOWN_JOB = re.compile(r"not found|could not find", re.IGNORECASE)
_EXIT_CODE = re.compile(r"exit ?code:? ([0-9]{1,3})", re.IGNORECASE)
_CODE = re.compile(r"/code/([0-9a-f]{64})\.tar\.gz")
_RECIPE = re.compile(r"\.recipes\.([a-z0-9_]+)\.")
_MOST_AT_ONCE = 8  # parallel calls that describe one job each


def list_jobs(target: SageMakerTarget) -> list[Listed]:
    """List every name; SageMaker's name of a job is its id."""
    return [Listed(id=name, name=name) for name in _names(target)]


def list_runs(target: SageMakerTarget) -> list[Run]:
    """Read every job that was created; a job that SageMaker refused has only files."""
    names = _names(target)
    with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        found = list(pool.map(lambda name: refresh(name, target), names))
    return [each.run for each in found if each]


def unfinished_runs(target: SageMakerTarget) -> list[Run]:
    return [run for run in list_runs(target) if not run.state.is_final]


def refresh(job_id: str, target: SageMakerTarget) -> Found[SageMakerTarget] | None:
    detail = describe(job_id, target)
    return Found(run=read_run(detail, target), target=target, detail=detail) if detail else None


def is_known(job_id: str, target: SageMakerTarget) -> bool:
    return describe(job_id, target) is not None


def describe(name: str, target: SageMakerTarget) -> Description | None:
    """Return SageMaker's description of a job; None if it never had one of this name."""
    from botocore.exceptions import ClientError

    try:
        answer: Description = reader("sagemaker", target.region).describe_training_job(TrainingJobName=name)
    except ClientError as error:
        said = error.response.get("Error", {})
        if said.get("Code") in ("ValidationException", "ResourceNotFound") and _UNKNOWN_JOB.search(
            said.get("Message", "")
        ):
            return None
        raise
    return answer


def read_run(detail: Description, target: SageMakerTarget, now: datetime | None = None) -> Run:
    status = str(detail.get("SecondaryStatus") or detail.get("TrainingJobStatus", "unknown"))
    state, resources = translate(STATES, status), detail.get("ResourceConfig") or {}
    nodes = resources.get("InstanceCount")
    seconds = billed_seconds(detail, state, now or datetime.now(UTC))
    code = _CODE.search((detail.get("HyperParameters") or {}).get("sagemaker_submit_directory", ""))
    recipe = _RECIPE.search((detail.get("Environment") or {}).get(variables.MODULE, ""))
    reason = detail.get("FailureReason") or None
    if not reason and not state.is_final:
        messages = [each["StatusMessage"] for each in transitions(detail) if each.get("StatusMessage")]
        reason = messages[-1] if messages else None
    return Run(
        id=str(detail["TrainingJobName"]),
        name=str(detail["TrainingJobName"]),
        target=target.name,
        region=target.region,
        state=state,
        status=status,
        reason=reason,
        recipe=recipe[1] if recipe else None,
        nodes=nodes,
        instance_type=str(resources.get("InstanceType", target.instance_type)),
        created_at=detail.get("CreationTime"),
        started_at=detail.get("TrainingStartTime"),
        stopped_at=detail.get("TrainingEndTime") if state.is_final else None,
        attempts=tuple(_ended_attempts(detail, state)),
        exit_code=exit_code(detail) if state.is_final else None,
        image=image_words(_own_image(detail, target), target, code[1]) if code else None,
        image_digest=f"sha256:{code[1]}" if code else None,
        hours=None if seconds is None else round(seconds / SECONDS_PER_HOUR, 4),
        cost=cost(nodes, seconds, price_of(target)),
        depends_on=(),
    )


def transitions(detail: Description) -> Sequence[Mapping[str, Any]]:
    return list(detail.get("SecondaryStatusTransitions") or ())


def billed_seconds(detail: Description, state: JobState, now: datetime) -> float | None:
    """Return the billed time of one instance; SageMaker's own count comes at the end."""
    warm = (detail.get("WarmPoolStatus") or {}).get("ResourceRetainedBillableTimeInSeconds", 0)
    if (billed := detail.get("BillableTimeInSeconds")) is not None:
        return float(billed + warm)
    started = detail.get("TrainingStartTime")
    if started is None:
        return 0.0
    until = detail.get("TrainingEndTime") if state.is_final else now
    return None if until is None else max(0.0, (until - started).total_seconds()) + warm


def exit_code(detail: Description) -> int | None:
    """Return the exit code that the launcher wrote into the failure file; else the toolkit's own."""
    if detail.get("TrainingJobStatus") == "Completed":
        return 0
    found = _EXIT_CODE.search(detail.get("FailureReason") or "")
    return int(found[1]) if found else None


def _names(target: SageMakerTarget) -> list[str]:
    pages = (
        reader("s3", target.region)
        .get_paginator("list_objects_v2")
        .paginate(Bucket=target.bucket, Prefix=JOBS, Delimiter="/", ExpectedBucketOwner=target.account)
    )
    prefixes = [str(each["Prefix"]) for page in pages for each in page.get("CommonPrefixes", [])]
    return [prefix.removeprefix(JOBS).rstrip("/") for prefix in prefixes]


def _own_image(detail: Mapping[str, Any], target: SageMakerTarget) -> str | None:
    """Return the image of a job that named one of the account's; AWS's belong to the cluster."""
    image = str((detail.get("AlgorithmSpecification") or {}).get("TrainingImage", ""))
    return image if image.startswith(own_registry(target)) and image != target.image else None


def _ended_attempts(detail: Description, state: JobState) -> list[Attempt]:
    """Return the times in which the container ran, without the current one."""
    ran = [each for each in transitions(detail) if each["Status"] == "Training" and each.get("EndTime")]
    last = ran[-1] if ran and state.is_final else None
    return [
        Attempt(
            started_at=each["StartTime"],
            stopped_at=each["EndTime"],
            exit_code=exit_code(detail) if each is last else None,
            reason=detail.get("FailureReason") if each is last else each.get("StatusMessage"),
        )
        for each in ran
    ]
