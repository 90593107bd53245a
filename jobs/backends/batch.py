"""AWS Batch: a job becomes one SubmitJob of the deployed multi-node definition. Decided here, sent by `send`.

A fact that containers should know is one line of _environment, and a field of containers/runtime/contract.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jobs.core.accelerators import family_of
from jobs.core.errors import Problem
from jobs.core.instances import instance_type
from jobs.core.job import DoesNotFit, InvalidJob, Job, submission_name
from jobs.core.retries import RETRY_RULES
from jobs.core.states import JobState
from jobs.core.targets import BatchTarget

STATES: Mapping[str, JobState] = {
    "SUBMITTED": JobState.WAITING,
    "PENDING": JobState.WAITING,
    "RUNNABLE": JobState.WAITING,
    "STARTING": JobState.STARTING,
    "RUNNING": JobState.RUNNING,
    "SUCCEEDED": JobState.SUCCEEDED,
    "FAILED": JobState.FAILED,
}

# On the Batch job, so that what ran is known without this machine.
RECIPE_TAG = "slipway:recipe"
NODES_TAG = "slipway:nodes"
IMAGE_TAG = "slipway:image"
DIGEST_TAG = "slipway:image-digest"
TARGET_TAG = "slipway:target"

MOST_BYTES = 30 * 1024  # of a SubmitJob (AWS Batch user guide, service limits)
_LAUNCH = ("python", "-m", "containers.runtime.launch", "--module")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """Everything that will be sent to AWS Batch; a dry run prints it."""

    submit: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.submit["jobName"])


def build_request(
    job: Job,
    target: BatchTarget,
    *,
    module: str,
    image_digest: str | None = None,
    waits_for: Sequence[str] = (),
) -> BatchRequest:
    """`module` is what the recipe runs; the digest is of the image that the job definition names.

    `waits_for` are the ids of the jobs that `job.depends_on` names.
    """
    _refuse_misfit(job, target)
    name = _name(job, target)
    container = {"command": _command(job, module), "environment": _environment(job, target, name)}
    submit = {
        "jobName": name,
        "jobQueue": target.queue_arn,
        "jobDefinition": target.job_definition_arn,
        **({"dependsOn": [{"jobId": each} for each in waits_for]} if waits_for else {}),
        "nodeOverrides": {
            "numNodes": job.nodes,
            "nodePropertyOverrides": [{"targetNodes": "0:", "containerOverrides": container}],
        },
        "retryStrategy": {"attempts": attempts(job, target), "evaluateOnExit": _evaluate_on_exit()},
        "timeout": {"attemptDurationSeconds": timeout_seconds(job, target)},
        "propagateTags": True,
        "tags": _tags(job, target, image_digest),
    }
    _refuse_too_long(submit)
    return BatchRequest(submit=submit)


def send(request: BatchRequest, client: Any) -> str:
    """The id of the job."""
    return str(client.submit_job(**request.submit)["jobId"])


def attempts(job: Job, target: BatchTarget) -> int:
    return target.job_attempts if job.attempts is None else job.attempts


def timeout_seconds(job: Job, target: BatchTarget) -> int:
    return target.job_timeout_seconds if job.timeout_seconds is None else job.timeout_seconds


def _refuse_misfit(job: Job, target: BatchTarget) -> None:
    if job.nodes > target.max_nodes:
        raise DoesNotFit(
            f"job '{job.name}' asks for {job.nodes} nodes but cluster '{target.name}' has {target.max_nodes}",
            hint=f"ask for at most {target.max_nodes}, or raise max_nodes in infra/clusters.py",
        )
    if timeout_seconds(job, target) > target.job_timeout_seconds:
        raise DoesNotFit(
            f"job '{job.name}' asks for {job.timeout_seconds} s but one on cluster '{target.name}' may take "
            f"{target.job_timeout_seconds}",
            hint="ask for less, or raise job_timeout_hours in infra/clusters.py",
        )


def _name(job: Job, target: BatchTarget) -> str:
    place = {
        "account": target.account,
        "region": target.region,
        "target": target.name,
        "image": f"{target.image}:{target.image_tag}",
    }
    return submission_name(job, place)


def _command(job: Job, module: str) -> list[str]:
    """Each setting is one word of the argument vector, and no shell ever reads it."""
    settings = (f"{name}={value}" for name, value in sorted(job.settings.items()))
    return [*_LAUNCH, module, "--", *(word for setting in settings for word in ("--set", setting))]


def _environment(job: Job, target: BatchTarget, name: str) -> list[dict[str, str]]:
    """The static half of the launch contract; containers/runtime/platforms.py reads the other half there."""
    mount = target.file_system_mount
    variables = {
        **_hardware(job, target),
        "SLIPWAY_JOB": name,
        "SLIPWAY_NODES": str(job.nodes),
        "SLIPWAY_RESUME_AFTER_SIGNALS": "1",  # a rank that crashed is tried again, one out of memory is not
        "SLIPWAY_TIMEOUT_SECONDS": str(timeout_seconds(job, target)),
        "SLIPWAY_DATA": _place("--data", job.data, target, default="data"),
        "SLIPWAY_CHECKPOINTS": _place(
            "--checkpoints", job.checkpoints, target, default=f"checkpoints/{name}"
        ),
        "SLIPWAY_LOGS": f"{mount}/logs/{name}" if mount else None,
    }
    return [{"name": key, "value": value} for key, value in sorted(variables.items()) if value is not None]


def _hardware(job: Job, target: BatchTarget) -> dict[str, str | None]:
    """What the launcher counts before it starts: a node that lacks a device fails at once, and by name."""
    hardware = instance_type(target.instance_type)
    family, accelerator = family_of(hardware), hardware.accelerator
    devices = accelerator.count if accelerator else 0
    return {
        "SLIPWAY_ACCELERATOR": family.files if family else None,
        "SLIPWAY_ACCELERATORS": str(devices) if family else None,
        "SLIPWAY_EFA_INTERFACES": str(target.efa_interfaces),
        "SLIPWAY_PROCESSES_PER_NODE": str(job.processes_per_node or devices or 1),
    }


def _place(option: str, given: str | None, target: BatchTarget, *, default: str) -> str | None:
    """A path or URL as it is; what is relative lies in the files that all nodes share."""
    if given is not None and (given.startswith("/") or "://" in given):
        return given
    if target.file_system_mount:
        return f"{target.file_system_mount}/{given or default}"
    if given is None:
        return None
    raise InvalidJob(
        [
            Problem(
                where=option,
                message=f"'{given}' is relative, and the nodes of cluster '{target.name}' share no files",
                hint="give a full path or URL, or set file_system in infra/clusters.py",
            )
        ]
    )


def _evaluate_on_exit() -> list[dict[str, str]]:
    words = {"on_exit_code": "onExitCode", "on_status_reason": "onStatusReason", "on_reason": "onReason"}
    return [
        {words.get(key, key): value for key, value in asdict(rule).items() if value is not None}
        for rule in RETRY_RULES
    ]


def _tags(job: Job, target: BatchTarget, image_digest: str | None) -> dict[str, str]:
    tags = {
        TARGET_TAG: target.name,
        RECIPE_TAG: job.recipe,
        NODES_TAG: str(job.nodes),
        IMAGE_TAG: f"{target.image}:{target.image_tag}",
    }
    return tags | ({DIGEST_TAG: image_digest} if image_digest else {})


def _refuse_too_long(submit: Mapping[str, Any]) -> None:
    size = len(json.dumps(submit).encode())
    if size > MOST_BYTES:
        raise InvalidJob(
            [
                Problem(
                    where="--set",
                    message=f"the request has {size} bytes, and AWS Batch takes {MOST_BYTES} at most",
                    hint="put long values into a file that the recipe reads",
                )
            ]
        )
