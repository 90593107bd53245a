"""Submits a job exactly once: `submit(Job(name="bert", recipe="bert_pretrain", nodes=2), on="dl1")`.

`prepare` decides everything and changes nothing. `submit` writes the journal, looks whether the job exists,
and sends it as jobs/sending.py does.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from jobs import aws
from jobs.aws import Unanswered
from jobs.backends.batch import BatchRequest, attempts, build_request
from jobs.confirming import Confirm, refuse_unconfirmed
from jobs.core.cost import AGREED_UNSAID, Agreed, Cost, cost
from jobs.core.errors import SlipwayError
from jobs.core.inputs import unreadable_inputs
from jobs.core.instances import instance_type
from jobs.core.job import Job
from jobs.core.launch_environment import timeout_seconds
from jobs.core.targets import BatchTarget
from jobs.dependencies import find_dependencies
from jobs.deployed import batch_only, find_digest, find_target_by_name
from jobs.journal import Entry, Journal, NoJournal, journal_folder
from jobs.pushed_images import refuse_foreign_registry, refuse_other_platform
from jobs.recipes import Recipe, find_recipe, refuse_hardware, refuse_settings
from jobs.sending import Waiting, send_once
from jobs.service_models import refuse_malformed
from jobs.twins import find_jobs, keep_first

# A job that AWS Batch took this long ago and does not know any more ended days ago, or was another yard's.
_REMEMBERED_SECONDS = 3600
_REAL_TIME = Waiting(pause=time.sleep, now=time.monotonic, share=random.random)

Say = Callable[[str], None]


class NoImage(SlipwayError):
    """Every node would fail to pull it, and be paid for meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """All that is decided about one submission; a dry run prints it."""

    job: Job
    recipe: Recipe
    target: BatchTarget
    request: BatchRequest
    image_digest: str | None  # None: nothing is pushed under the tag, or AWS did not say
    waits_for: tuple[str, ...]  # ids of the jobs that have to succeed first
    ceiling: Cost  # if every attempt took all of its time
    warnings: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.request.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    prepared: Prepared
    job_id: str
    existed: bool  # it was submitted before, or elsewhere in the same instant


def prepare(job: Job, on: str, region: str | None = None) -> Prepared:
    recipe = find_recipe(job.recipe)
    refuse_settings(recipe, job.settings)
    target = batch_only(find_target_by_name(on, region))
    refuse_hardware(recipe, instance_type(target.instance_type))
    build_request(job, target, module=recipe.module)  # refuses what does not fit before anything is asked
    refuse_foreign_registry(target)
    waits_for = find_dependencies(job.depends_on, target)
    digest = find_digest(target, target.image_tag)
    known_digest = digest if isinstance(digest, str) else None
    if known_digest:
        refuse_other_platform(target, known_digest)
    seconds = timeout_seconds(job, target) * attempts(job, target)
    return Prepared(
        job=job,
        recipe=recipe,
        target=target,
        request=_request(job, recipe, target, known_digest, waits_for),
        image_digest=known_digest,
        waits_for=waits_for,
        ceiling=cost(job.nodes, seconds, instance_type(target.instance_type).price),
        warnings=(*_warnings(target, digest), *unreadable_inputs(job, target)),
    )


def submit(
    job: Job,
    on: str,
    region: str | None = None,
    *,
    again: bool = False,
    agreed: Agreed = AGREED_UNSAID,
    say: Say = lambda _: None,
) -> Submitted:
    """The same job once more is the one that exists already, unless `again`."""
    prepared = prepare(job, on, region)
    return submit_prepared(
        prepared,
        again=again,
        say=say,
        confirm=lambda name, ceiling: refuse_unconfirmed(name, ceiling, agreed),
    )


def submit_prepared(
    prepared: Prepared,
    *,
    again: bool = False,
    say: Say = lambda _: None,
    confirm: Confirm = refuse_unconfirmed,
    waiting: Waiting | None = None,
) -> Submitted:
    """`confirm` is called when it is certain that the job has to be sent, and may refuse."""
    target = prepared.target
    _refuse_missing_image(prepared)
    journal = Journal(folder=journal_folder(target, aws.endpoint()))
    if again:
        prepared = _next_repeat(prepared, journal)
    with journal.locked(
        prepared.name, lambda: say(f"another slipway submits {prepared.name}; waiting for it")
    ):
        sent = None
        job_id = find_job_id(prepared.name, target) or _noted(journal, prepared)
        if job_id is None:
            confirm(prepared.name, prepared.ceiling)
            sent = _send(prepared, journal, waiting or _REAL_TIME)
            job_id = keep_first(sent, prepared.name, target, waiting or _REAL_TIME, say)
        _note(journal, prepared, job_id, say)
    return Submitted(prepared=prepared, job_id=job_id, existed=job_id != sent)


def find_job_id(name: str, target: BatchTarget) -> str | None:
    return next((str(each["jobId"]) for each in find_jobs(name, target)), None)


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


def _refuse_missing_image(prepared: Prepared) -> None:
    """In the yard this checkout runs in the image's place."""
    target = prepared.target
    if prepared.image_digest or aws.is_in_yard():
        return
    raise NoImage(
        f"image {target.image}:{target.image_tag}, which '{target.name}' runs, is not in its repository",
        hint=f"slipway build {target.image} --on {target.name}",
    )


def _next_repeat(prepared: Prepared, journal: Journal) -> Prepared:
    """The first that is not known to exist; one that was cut short is finished rather than passed over."""
    for repeat in count():
        job = replace(prepared.job, repeat=repeat)
        request = _request(job, prepared.recipe, prepared.target, prepared.image_digest, prepared.waits_for)
        other = replace(prepared, job=job, request=request)
        entry = journal.read(other.name)
        is_free = entry is None and find_job_id(other.name, prepared.target) is None
        if is_free or (entry is not None and entry.job_id is None):
            return other
    raise AssertionError("unreachable: repeats are not limited")


def _noted(journal: Journal, prepared: Prepared) -> str | None:
    """The job that the journal knows, where the platform knows it too or may be slow to."""
    entry = journal.read(prepared.name)
    if entry is None or entry.job_id is None:
        return None
    described = aws.reader("batch", prepared.target.region).describe_jobs(jobs=[entry.job_id])
    is_known = bool(described.get("jobs"))
    is_fresh = time.time() - entry.written_at < _REMEMBERED_SECONDS
    return entry.job_id if is_known or (is_fresh and not aws.is_in_yard()) else None


def _send(prepared: Prepared, journal: Journal, waiting: Waiting) -> str:
    target = prepared.target
    journal.write(_entry(prepared, None))
    return send_once(
        prepared.request,
        aws.client("batch", target.region),
        find=lambda: find_job_id(prepared.name, target),
        refused=lambda: journal.remove(prepared.name),
        waiting=waiting,
    )


def _note(journal: Journal, prepared: Prepared, job_id: str, say: Say) -> None:
    """The job runs now whatever becomes of the note: the next look finds it by its name."""
    try:
        journal.write(_entry(prepared, job_id))
    except NoJournal as error:
        say(f"{prepared.name} was submitted as {job_id}, but {error.message}")


def _entry(prepared: Prepared, job_id: str | None) -> Entry:
    return Entry(
        name=prepared.name,
        target=prepared.target.name,
        recipe=prepared.job.recipe,
        nodes=prepared.job.nodes,
        image=f"{prepared.target.image}:{prepared.target.image_tag}",
        image_digest=prepared.image_digest,
        written_at=int(time.time()),
        job_id=job_id,
    )
