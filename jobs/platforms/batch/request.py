"""Builds the SubmitJob of a job on AWS Batch, which runs the deployed multi-node definition. Pure.

jobs/words/launch_environment.py decides what containers are told, for all platforms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from slipway.jobs.words.errors import Problem
from slipway.jobs.words.job import InvalidJob, Job, code_key, submission_name
from slipway.jobs.words.launch_environment import (
    launch_environment,
    refuse_misfit,
    setting_words,
    timeout_seconds,
)
from slipway.jobs.words.names import TARGET_TAG
from slipway.jobs.words.run import RETRY_RULES, JobState
from slipway.jobs.words.targets import BatchTarget

STATES: Mapping[str, JobState] = {
    "SUBMITTED": JobState.WAITING,
    "PENDING": JobState.WAITING,
    "RUNNABLE": JobState.WAITING,
    "STARTING": JobState.STARTING,
    "RUNNING": JobState.RUNNING,
    "SUCCEEDED": JobState.SUCCEEDED,
    "FAILED": JobState.FAILED,
}

# Tags of the Batch job, so that any machine can tell what ran.
RECIPE_TAG = "slipway:recipe"
NODES_TAG = "slipway:nodes"
IMAGE_TAG = "slipway:image"
DIGEST_TAG = "slipway:image-digest"

MOST_BYTES = 30 * 1024  # of a SubmitJob (AWS Batch user guide, service limits)
# Batch hands command and environment on to ECS, which takes 8192 characters of them with their JSON (ECS
# API reference, RunTask): a longer job is accepted and fails (ASFHyP3/hyp3#3041). Batch adds some of its own.
MOST_OVERRIDES = 8192 - 1024
_LONGEST_TAG = 256  # its value (AWS Batch API reference, TagResource)
_DIGEST_SHOWN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """Holds everything that will be sent to AWS Batch; a dry run prints it."""

    submit: Mapping[str, Any]
    register: dict[str, Any] | None = None  # a job definition, if the job names an image
    code: str | None = None  # digest of the code that is uploaded for it; None: the image holds the code

    @property
    def name(self) -> str:
        return str(self.submit["jobName"])


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownImage:
    """Holds what was found out about the container image that a job runs in."""

    digest: str | None = None
    register: dict[str, Any] | None = None  # the definition for an image that the job names
    code: str | None = None  # digest of our code, which the job fetches if its image has none


def build_request(
    job: Job,
    target: BatchTarget,
    *,
    module: str,
    image: KnownImage | None = None,
    waits_for: Sequence[str] = (),
) -> BatchRequest:
    """Build the request: `module` is what the recipe runs.

    `waits_for` are the ids of the jobs that `job.depends_on` names.
    """
    image = image or KnownImage()
    refuse_misfit(job, target)
    name = submission_name(job, target, image_words(job, target, image.code))
    container = {
        "command": _command(job, target, module, image.code),
        "environment": [
            {"name": key, "value": value} for key, value in launch_environment(job, target, name).items()
        ],
    }
    submit = {
        "jobName": name,
        "jobQueue": target.queue_arn,
        "jobDefinition": image.register["jobDefinitionName"] if image.register else target.job_definition_arn,
        **({"dependsOn": [{"jobId": each} for each in waits_for]} if waits_for else {}),
        "nodeOverrides": {
            "numNodes": job.nodes,
            "nodePropertyOverrides": [{"targetNodes": "0:", "containerOverrides": container}],
        },
        "retryStrategy": {"attempts": attempts(job, target), "evaluateOnExit": _evaluate_on_exit()},
        "timeout": {"attemptDurationSeconds": timeout_seconds(job, target)},
        "propagateTags": True,
        "tags": {
            TARGET_TAG: target.name,
            RECIPE_TAG: job.recipe,
            NODES_TAG: str(job.nodes),
            IMAGE_TAG: image_words(job, target, image.code)[:_LONGEST_TAG],
            **({DIGEST_TAG: image.digest} if image.digest else {}),
        },
    }
    _refuse_too_long(submit)
    return BatchRequest(submit=submit, register=image.register, code=image.code)


def attempts(job: Job, target: BatchTarget) -> int:
    return target.job_attempts if job.attempts is None else job.attempts


def image_words(job: Job, target: BatchTarget, code: str | None = None) -> str:
    """Describe for users what the job runs in."""
    brought = f"+{code[:_DIGEST_SHOWN]}" if code else ""
    return job.image or f"{target.image}:{target.image_tag}{brought}"


def _command(job: Job, target: BatchTarget, module: str, code: str | None) -> list[str]:
    words = ["--module", module, "--", *setting_words(job)]
    if code is None:
        return ["python", "-m", "slipway.containers.runtime.launch", *words]
    return ["python", "-c", _bringing(), f"s3://{target.bucket}/{code_key(code)}", *words]


@lru_cache(maxsize=1)
def _bringing() -> str:
    """Return the text of the program in containers/ that fetches the code and becomes the launcher."""
    return files("slipway.containers").joinpath("runtime/launch/bring_code.py").read_text(encoding="utf-8")


def _evaluate_on_exit() -> list[dict[str, str]]:
    words = {"on_exit_code": "onExitCode", "on_status_reason": "onStatusReason", "on_reason": "onReason"}
    return [
        {words.get(key, key): value for key, value in asdict(rule).items() if value is not None}
        for rule in RETRY_RULES
    ]


def _refuse_too_long(submit: Mapping[str, Any]) -> None:
    (override,) = submit["nodeOverrides"]["nodePropertyOverrides"]
    for what, part, most in (
        ("command and environment have", override["containerOverrides"], MOST_OVERRIDES),
        ("the request has", submit, MOST_BYTES),
    ):
        size = len(json.dumps(part).encode())
        if size > most:
            message = f"{what} {size} bytes, and AWS Batch takes {most} at most"
            hint = "put long values into a file that the job reads"
            raise InvalidJob([Problem(where="--set", message=message, hint=hint)])
