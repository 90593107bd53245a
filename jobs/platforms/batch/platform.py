"""What commands ask of AWS Batch. The requests are built in jobs/platforms/batch/request.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from slipway.jobs import aws
from slipway.jobs.aws import Unanswered
from slipway.jobs.catalogue.instances import instance_type
from slipway.jobs.clusters.deployed import find_digest
from slipway.jobs.core.errors import SlipwayError
from slipway.jobs.core.explanation import Explanation
from slipway.jobs.core.inputs import unreadable_inputs
from slipway.jobs.core.job import Job
from slipway.jobs.core.run import Found
from slipway.jobs.core.targets import BatchTarget
from slipway.jobs.core.text import Say
from slipway.jobs.platforms.batch.explain import explain as explain_facts
from slipway.jobs.platforms.batch.job_facts import gather
from slipway.jobs.platforms.batch.pushed_images import refuse_foreign_registry, refuse_other_platform
from slipway.jobs.platforms.batch.request import BatchRequest, attempts, build_request
from slipway.jobs.platforms.batch.request import send as send_request
from slipway.jobs.platforms.batch.runs import (
    describe_jobs,
    find_dependencies_of,
    is_known,
    list_jobs,
    list_runs,
    refresh,
    unfinished_runs,
)
from slipway.jobs.platforms.batch.twins import find_jobs, keep_first
from slipway.jobs.platforms.prepared import Prepared
from slipway.jobs.platforms.service_models import refuse_malformed
from slipway.jobs.recipes import Recipe, idle_accelerators

__all__ = [
    "find_dependencies_of",
    "is_known",
    "keep_first",
    "list_jobs",
    "list_runs",
    "refresh",
    "unfinished_runs",
]

BatchPrepared = Prepared[BatchTarget, BatchRequest]

SERVICE = "AWS Batch"


class NoImage(SlipwayError):
    """Every node would fail to pull the image, and be paid for meanwhile."""


def prepare(job: Job, recipe: Recipe, target: BatchTarget, waits_for: tuple[str, ...]) -> BatchPrepared:
    build_request(job, target, module=recipe.module)  # refuses what does not fit before anything is asked
    refuse_foreign_registry(target)
    digest = find_digest(target, target.image_tag)
    known_digest = digest if isinstance(digest, str) else None
    if known_digest:
        refuse_other_platform(target, known_digest)
    return Prepared(
        job=job,
        recipe=recipe,
        target=target,
        request=_request(job, recipe, target, known_digest, waits_for),
        image=f"{target.image}:{target.image_tag}",
        image_digest=known_digest,
        waits_for=waits_for,
        attempts=attempts(job, target),
        warnings=(
            *_warnings(target, digest),
            *unreadable_inputs(job, target),
            *idle_accelerators(recipe, instance_type(target.instance_type), job.nodes),
        ),
    )


def repeat(prepared: BatchPrepared, job: Job) -> BatchPrepared:
    target = prepared.target
    request = _request(job, prepared.recipe, target, prepared.image_digest, prepared.waits_for)
    return replace(prepared, job=job, request=request)


def refuse_unready(prepared: BatchPrepared) -> None:
    """Refuse if no container image is pushed; the yard needs none, it runs this checkout."""
    if prepared.image_digest or aws.is_in_yard():
        return
    target = prepared.target
    raise NoImage(
        f"container image {prepared.image}, which '{target.name}' runs, is not in its repository",
        hint=f"slipway build {target.image} --on {target.name}",
    )


def make_ready(prepared: BatchPrepared, say: Say) -> BatchPrepared:
    """Return the submission unchanged: Batch starts machines with the job."""
    return prepared


def send(prepared: BatchPrepared) -> str:
    return send_request(prepared.request, aws.sender("batch", prepared.target.region))


def find_job_id(name: str, target: BatchTarget) -> str | None:
    return next((str(job["jobId"]) for job in find_jobs(name, target)), None)


def log_streams(found: Found[BatchTarget], node: int | None) -> list[tuple[int, str]]:
    """List the log streams of each node, those of the first attempt first."""
    target = found.target
    nodes = range(found.run.nodes or 0) if node is None else [node]
    details = list(describe_jobs(target, [f"{found.run.id}#{each}" for each in nodes]))
    streams = [(_node(detail), name) for detail in details for name in _names(detail)]
    own = [(0, name) for name in _names(found.detail)]  # of a job that has no nodes of their own
    return list(dict.fromkeys([*streams, *(own if not streams else [])]))


def log_locator() -> Callable[[int, str], int]:
    """Return the node of the stream: each node has streams of its own."""
    return lambda node, _text: node


def cancel(found: Found[BatchTarget], reason: str) -> None:
    aws.client("batch", found.run.region).terminate_job(jobId=found.run.id, reason=reason)


def explain(found: Found[BatchTarget]) -> Explanation:
    return explain_facts(gather(found))


def _request(
    job: Job, recipe: Recipe, target: BatchTarget, digest: str | None, waits_for: Sequence[str]
) -> BatchRequest:
    request = build_request(job, target, module=recipe.module, image_digest=digest, waits_for=waits_for)
    refuse_malformed("batch", "SubmitJob", request.submit)
    return request


def _warnings(target: BatchTarget, digest: str | Unanswered | None) -> list[str]:
    image = f"image {target.image}:{target.image_tag}"
    warnings = []
    if isinstance(digest, Unanswered):
        warnings.append(f"whether {image} is pushed is not known: {digest.action} said {digest.code}")
    elif digest is None:
        warnings.append(f"{image} is not pushed: slipway build {target.image} --on {target.name}")
    if target.file_system_mount is None:
        warnings.append(
            f"the nodes of {target.name} share no files: what one saves is lost when the attempt ends"
        )
    return warnings


def _node(detail: Any) -> int:
    return int(str(detail["jobId"]).rpartition("#")[2])


def _names(detail: Any) -> list[str]:
    containers = [each.get("container") or {} for each in (*(detail.get("attempts") or ()), detail)]
    return [str(container["logStreamName"]) for container in containers if container.get("logStreamName")]
