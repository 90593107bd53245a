"""Submits a job exactly once: `submit(Job(name="bert", recipe="bert_pretrain", nodes=2), on="dl1")`.

preparing.py decides everything and changes nothing. `submit` writes the journal, looks whether the job
exists, and sends it as jobs/platforms/sending.py does.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from itertools import count

from slipway.jobs.cloud import aws
from slipway.jobs.platforms.journal import Entry, Journal, NoJournal, journal_folder
from slipway.jobs.platforms.prepared import AnyPrepared
from slipway.jobs.platforms.registry import platform_of, twins_of
from slipway.jobs.platforms.sending import SubmitCall, Waiting, send_once
from slipway.jobs.submit.confirming import Confirm, refuse_unconfirmed
from slipway.jobs.submit.preparing import prepare
from slipway.jobs.submit.quotas import refuse_small_quota
from slipway.jobs.words.cost import AGREED_UNSAID, Agreed
from slipway.jobs.words.job import Job
from slipway.jobs.words.records import NewerRecord
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import Say

__all__ = ["Submitted", "find_job_id", "prepare", "submit", "submit_prepared"]

# A job that the platform took this long ago and does not know any more ended days ago, or was another yard's.
_REMEMBERED_SECONDS = 3600
_REAL_TIME = Waiting(pause=time.sleep, now=time.monotonic, share=random.random)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    prepared: AnyPrepared
    job_id: str
    existed: bool  # it was submitted before, or elsewhere in the same instant


def submit(
    job: Job,
    on: str,
    region: str | None = None,
    *,
    again: bool = False,
    agreed: Agreed = AGREED_UNSAID,
    say: Say = lambda _: None,
) -> Submitted:
    """Submit a job, or return the same job that exists already, unless `again`."""
    prepared = prepare(job, on, region)
    return submit_prepared(
        prepared,
        again=again,
        say=say,
        confirm=lambda name, ceiling: refuse_unconfirmed(name, ceiling, agreed),
    )


def submit_prepared(
    prepared: AnyPrepared,
    *,
    again: bool = False,
    say: Say = lambda _: None,
    confirm: Confirm = refuse_unconfirmed,
    waiting: Waiting | None = None,
) -> Submitted:
    """Submit a prepared job; `confirm` is called only if it must be sent, and may refuse."""
    platform, target = platform_of(prepared.target), prepared.target
    platform.refuse_unready(prepared)
    journal = Journal(folder=journal_folder(target, aws.endpoint()))
    if again:
        prepared = _next_repeat(prepared, journal)
    with journal.locked(
        prepared.name, lambda: say(f"another slipway is submitting {prepared.name}; waiting for it")
    ):
        sent = None
        job_id = find_job_id(prepared.name, target) or _noted(journal, prepared)
        if job_id is None:
            refuse_small_quota(prepared.job, target)
            confirm(prepared.name, prepared.ceiling)
            prepared = platform.make_ready(prepared, say)
            sent = _send(prepared, journal, waiting or _REAL_TIME, say)
            twins, job_id = twins_of(target), sent
            if twins:
                job_id = twins.keep_first(sent, prepared.name, target, waiting or _REAL_TIME, say)
        _note(journal, prepared, job_id, say)
    return Submitted(prepared=prepared, job_id=job_id, existed=job_id != sent)


def find_job_id(name: str, target: Target) -> str | None:
    return platform_of(target).find_job_id(name, target)


def _next_repeat(prepared: AnyPrepared, journal: Journal) -> AnyPrepared:
    """Return the first repeat that does not exist, or one that was cut short, to finish it."""
    for repeat in count():
        job = replace(prepared.job, repeat=repeat)
        other = platform_of(prepared.target).repeat(prepared, job)
        entry = journal.read(other.name)
        is_free = entry is None and find_job_id(other.name, prepared.target) is None
        if is_free or (entry is not None and entry.job_id is None):
            return other
    raise AssertionError("unreachable: repeats are not limited")


def _noted(journal: Journal, prepared: AnyPrepared) -> str | None:
    """Return the job of the journal, if the platform knows it or may be slow to list it."""
    entry = journal.read(prepared.name)
    if entry is None or entry.job_id is None:
        return None
    is_known = platform_of(prepared.target).is_known(entry.job_id, prepared.target)
    is_fresh = time.time() - entry.written_at < _REMEMBERED_SECONDS
    return entry.job_id if is_known or (is_fresh and not aws.is_in_yard()) else None


def _send(prepared: AnyPrepared, journal: Journal, waiting: Waiting, say: Say) -> str:
    platform = platform_of(prepared.target)
    journal.write(_entry(prepared, None))
    return send_once(
        SubmitCall(name=prepared.name, service=platform.SERVICE, send=lambda: platform.send(prepared)),
        find=lambda: find_job_id(prepared.name, prepared.target),
        refused=lambda: journal.remove(prepared.name),
        waiting=waiting,
        say=say,
    )


def _note(journal: Journal, prepared: AnyPrepared, job_id: str, say: Say) -> None:
    """Write the job's id into the journal; a failure is only told, since the job runs already."""
    try:
        journal.write(_entry(prepared, job_id))
    except (NoJournal, NewerRecord) as error:
        say(f"{prepared.name} was submitted as {job_id}, but {error.message}")


def _entry(prepared: AnyPrepared, job_id: str | None) -> Entry:
    return Entry(
        name=prepared.name,
        target=prepared.target.name,
        recipe=prepared.job.recipe,
        nodes=prepared.job.nodes,
        image=prepared.image,
        image_digest=prepared.image_digest,
        written_at=int(time.time()),
        job_id=job_id,
    )
