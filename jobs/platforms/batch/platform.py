"""What commands ask of AWS Batch. The requests are built in jobs/platforms/batch/request.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.cloud.deployed import find_digest
from slipway.jobs.platforms.batch.explain import MEND_ENVIRONMENT
from slipway.jobs.platforms.batch.explain import explain as explain_facts
from slipway.jobs.platforms.batch.job_facts import find_environments, gather
from slipway.jobs.platforms.batch.own_images import find_image, register_once
from slipway.jobs.platforms.batch.pushed_images import refuse_foreign_registry, refuse_other_platform
from slipway.jobs.platforms.batch.request import (
    BatchRequest,
    KnownImage,
    attempts,
    build_request,
    image_words,
)
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
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.explanation import Explanation
from slipway.jobs.words.inputs import unreadable_inputs
from slipway.jobs.words.job import Job
from slipway.jobs.words.recipes import Recipe, idle_accelerators
from slipway.jobs.words.run import Found
from slipway.jobs.words.targets import BatchTarget
from slipway.jobs.words.text import Say

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
TAKES_IMAGES = True


class NoImage(SlipwayError):
    """Every node would fail to pull the image, and be paid for meanwhile."""


def prepare(job: Job, recipe: Recipe, target: BatchTarget, waits_for: tuple[str, ...]) -> BatchPrepared:
    build_request(job, target, module=recipe.module)  # refuses what does not fit before anything is asked
    refuse_foreign_registry(target)
    own = find_image(job.image, target) if job.image else None
    digest = own.digest if own else find_digest(target, target.image_tag)
    known_digest, words = digest if isinstance(digest, str) else None, image_words(job, target)
    if known_digest:
        repository = own.repository if own else target.repository_uri.partition("/")[2]
        refuse_other_platform(target, repository, known_digest, words)
    known = KnownImage(digest=known_digest, register=own.register if own else None)
    return Prepared(
        job=job,
        recipe=recipe,
        target=target,
        request=_request(job, recipe, target, known, waits_for),
        image=words,
        image_digest=known_digest,
        waits_for=waits_for,
        attempts=attempts(job, target),
        warnings=(
            *_warnings(job, target, digest),
            *unreadable_inputs(job, target),
            *idle_accelerators(recipe, instance_type(target.instance_type), job.nodes),
        ),
    )


def repeat(prepared: BatchPrepared, job: Job) -> BatchPrepared:
    target = prepared.target
    known = KnownImage(digest=prepared.image_digest, register=prepared.request.register)
    request = _request(job, prepared.recipe, target, known, prepared.waits_for)
    return replace(prepared, job=job, request=request)


def refuse_unready(prepared: BatchPrepared) -> None:
    """Refuse if no container image is pushed; the yard needs none, it runs this checkout."""
    target, own = prepared.target, prepared.job.image
    if prepared.image_digest or (aws.is_in_yard() and not own):
        return
    if own:
        raise NoImage(
            f"the registry has no image {own}",
            hint=f"push it there, or write images/NAME/Dockerfile: slipway build NAME --on {target.name}",
        )
    raise NoImage(
        f"container image {prepared.image}, which '{target.name}' runs, is not in its repository",
        hint=f"slipway build {target.image} --on {target.name}",
    )


def make_ready(prepared: BatchPrepared, say: Say) -> BatchPrepared:
    """Register the definition of an image that the job names; Batch starts machines with the job."""
    if prepared.request.register:
        register_once(prepared.request.register, prepared.target, say)
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


def missing_machines(target: BatchTarget) -> Sequence[tuple[str, str]]:
    return [(each.words, MEND_ENVIRONMENT) for each in find_environments(target) if each.starts_none]


def _request(
    job: Job, recipe: Recipe, target: BatchTarget, image: KnownImage, waits_for: Sequence[str]
) -> BatchRequest:
    request = build_request(job, target, module=recipe.module, image=image, waits_for=waits_for)
    refuse_malformed("batch", "SubmitJob", request.submit)
    return request


def _warnings(job: Job, target: BatchTarget, digest: str | Unanswered | None) -> list[str]:
    image = f"image {image_words(job, target)}"
    warnings = []
    if isinstance(digest, Unanswered):
        warnings.append(f"whether {image} is pushed is not known: {digest.action} said {digest.code}")
    elif digest is None:
        built = "NAME" if job.image else target.image
        warnings.append(f"{image} is not pushed: slipway build {built} --on {target.name}")
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
