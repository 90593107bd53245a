"""Finds the jobs that platforms list, by id, name or prefix, and reads each into a Run with its cost.

A fact that the platform leaves out is None, and a state that Slipway does not know is shown as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import own_region
from slipway.jobs.cloud.deployed import find_target_by_name, find_targets
from slipway.jobs.output import say
from slipway.jobs.platforms.journal import submitted_entries
from slipway.jobs.platforms.platform import platform_of, waiting_of
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.given import checked
from slipway.jobs.words.job import WHOLE_NAME, DoesNotFit, Job
from slipway.jobs.words.run import Found, JobState, Listed, Run
from slipway.jobs.words.targets import Target

_NO_JOB = "there is no job yet, or AWS has forgotten it"
_START_ONE = "start one: slipway run, or slipway submit"
_SHOWN_CANDIDATES = 5
_OLDEST = datetime.min.replace(tzinfo=UTC)


class UnknownJob(SlipwayError):
    """No listed job matches, or several do."""


T = TypeVar("T", bound=Target)
R = TypeVar("R")


@checked
def targets_to_search(on: str | None, region: str | None) -> list[Target]:
    """Return the named target; without a name, those of your region, or of all regions if it has none."""
    if on:
        return [find_target_by_name(on, region)]
    own = region or own_region()
    found = find_targets(own)[0] if own else []
    return found or ([] if region else find_targets(None)[0])


def list_runs(targets: Sequence[Target]) -> list[Run]:
    """List the runs of all targets, newest first."""
    return _newest_first([run for _, run in _asked(targets, lambda each: platform_of(each).list_runs(each))])


def list_unfinished(targets: Sequence[Target]) -> list[Run]:
    """List the runs that have not ended, newest first, without reading those that have."""
    found = _asked(targets, lambda each: platform_of(each).unfinished_runs(each))
    return _newest_first([run for _, run in found])


def _asked(targets: Sequence[T], ask: Callable[[T], Iterable[R]]) -> list[tuple[T, R]]:
    """Return what each target answers; of several, leave out those that the caller's policies exclude."""
    found: list[tuple[T, R]] = []
    refused: dict[str, Exception] = {}
    for target in targets:
        try:
            found += [(target, each) for each in ask(target)]
        except Exception as error:
            if not aws.is_refusal(error):
                raise
            refused[target.name] = error
    if refused and len(refused) == len(targets):
        raise next(iter(refused.values()))
    if refused:
        say(f"left out are the jobs of {', '.join(refused)}, which your permissions do not cover")
    return found


def find_awaited(runs: Sequence[Run], targets: Sequence[Target]) -> list[Run]:
    """Return what unfinished runs wait for: each other, and runs that are read for it, in one go a target."""
    found = [*runs]
    for target in targets:
        own = [run for run in runs if (run.target, run.region) == (target.name, target.region)]
        known = {run.id for run in own}  # on this target: each Slurm cluster counts its jobs from 1
        missing = dict.fromkeys(each for run in own for each in run.depends_on if each not in known)
        if missing and (waiting := waiting_of(target)):
            found += waiting.find_dependencies_of(replace(own[0], depends_on=tuple(missing)), target)
    return found


def _newest_first(runs: Sequence[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: run.created_at or _OLDEST, reverse=True)


@checked
def find_run(text: str, targets: Sequence[T]) -> Found[T]:
    """Find a job by its id or name, or by a prefix of either that only one job has."""
    fitting = _fitting(text, targets)
    if len(fitting) > 1:
        raise _several(text, [listed for listed, _ in fitting])
    listed, target = fitting[0]
    return refresh(listed.id, target)


def find_newest(text: str | None, targets: Sequence[T], say: Callable[[str], None]) -> Found[T]:
    """Find a job as find_run does; if several match, or there is no text, take the newest and say which."""
    fitting = _fitting(text, targets)
    if text is not None and len(fitting) == 1:
        listed, target = fitting[0]
        return refresh(listed.id, target)
    newest: Found[T] | None
    if all(listed.created_at for listed, _ in fitting):  # then that one alone has to be read
        listed, target = max(fitting, key=lambda pair: pair[0].created_at or _OLDEST)
        newest = refresh(listed.id, target)
    else:
        runs = _runs_of(fitting, list_runs)
        newest = _found_again(runs[0], fitting) if runs else None
    which = "job" if text is None else f"of {len(fitting)} jobs that begin with '{text}'"
    if newest is None:
        raise UnknownJob(f"the newest {which} is no longer listed", hint="slipway status --all")
    say(f"the newest {which}: {newest.run.name} ({newest.run.id})")
    return newest


def find_unfinished(text: str, targets: Sequence[T]) -> Found[T]:
    """Find a job as find_run does; if several match, take the only one that has not ended."""
    fitting = _fitting(text, targets)
    if len(fitting) > 1:
        unfinished = [run for run in _runs_of(fitting, list_unfinished) if not run.state.is_final]
        if len(unfinished) != 1:
            raise _several(text, unfinished or [listed for listed, _ in fitting])
        return _found_again(unfinished[0], fitting)
    listed, target = fitting[0]
    return refresh(listed.id, target)


def _runs_of(fitting: Sequence[tuple[Listed, T]], read: Callable[[Sequence[Target]], list[Run]]) -> list[Run]:
    """Read these jobs, newest first."""
    ids = {(listed.id, target.name, target.region) for listed, target in fitting}
    targets = {(target.name, target.region): target for _, target in fitting}
    runs = read(list(targets.values()))
    return [run for run in runs if (run.id, run.target, run.region) in ids]


def _found_again(run: Run, fitting: Sequence[tuple[Listed, T]]) -> Found[T]:
    place = (run.target, run.region)
    return refresh(run.id, next(target for _, target in fitting if (target.name, target.region) == place))


def _fitting(text: str | None, targets: Sequence[T]) -> list[tuple[Listed, T]]:
    """Return the jobs that a text may mean, or all jobs without a text; refuse if there are none."""
    listed = _asked(targets, lambda each: platform_of(each).list_jobs(each))
    every = [(job, target) for target, job in listed if job.id == text or not job.is_twin]
    if text is None:
        if not every:
            raise UnknownJob(_NO_JOB, hint=_START_ONE)
        return every
    exact = [pair for pair in every if text in (pair[0].id, pair[0].name)]
    chosen = exact or _beginning(text, every) or _beginning(text.replace("_", "-"), every)
    if chosen:
        return chosen
    if forgotten := _forgotten(text):
        raise forgotten
    if every:
        names = _names([listed for listed, _ in every])
        raise UnknownJob(f"no job's name or id is '{text}' or begins with it", hint=f"there are {names} …")
    raise UnknownJob(f"there is no job '{text}': {_NO_JOB}", hint=_START_ONE)


def refresh(job_id: str, target: T) -> Found[T]:
    platform = platform_of(target)
    found = platform.refresh(job_id, target)
    if found is None:
        raise UnknownJob(f"{platform.SERVICE} no longer knows job {job_id}", hint="slipway status --all")
    return found


def _beginning(text: str, every: Sequence[tuple[Listed, T]]) -> list[tuple[Listed, T]]:
    """Return the jobs whose id or name has this prefix; SageMaker's names have hyphens for underscores."""
    return [
        (job, target)
        for job, target in every
        if text and (job.id.startswith(text) or job.name.startswith(text))
    ]


def _several(text: str, chosen: Sequence[Listed | Run]) -> UnknownJob:
    return UnknownJob(f"{len(chosen)} jobs begin with '{text}'", hint=f"choose one: {_names(chosen)} …")


def _names(jobs: Sequence[Listed | Run]) -> str:
    return ", ".join(f"{each.name} ({each.id})" for each in jobs[:_SHOWN_CANDIDATES])


def _forgotten(text: str) -> UnknownJob | None:
    """Explain, from this machine's journal, that the job's cluster was destroyed."""
    for entry in submitted_entries(aws.endpoint()):
        if entry.job_id and text and text in (entry.name, entry.job_id):
            return UnknownJob(
                f"{entry.name} was submitted to {entry.target} as {entry.job_id}, and no deployed cluster "
                "lists it: a job ends with its queue when its cluster is destroyed",
                hint=f"AWS Batch knows it for some days: aws batch describe-jobs --jobs {entry.job_id}",
            )
    return None


# Finds the jobs that a new job names in --depends-on and in its settings.


def find_dependencies(names: Sequence[str], target: Target) -> tuple[str, ...]:
    """Return ids of jobs on this target; refuse a job that is unknown, on another target or failed."""
    if waiting_of(target) is None:
        return ()  # prepare refuses dependencies there
    found = [_find(name, target).run for name in names]
    for run in found:
        if run.state is JobState.FAILED:
            said = f": {run.reason}" if run.reason else ""
            raise DoesNotFit(
                f"--depends-on: {run.name} failed{said}",
                hint=f"slipway explain {run.name}; then submit it again",
            )
    return tuple(dict.fromkeys(run.id for run in found))


def with_whole_names(job: Job, settings: Sequence[str], target: Target) -> Job:
    """Return the job with the names of other jobs in these settings completed to their whole names."""
    named = {}
    for setting in (each for each in settings if each in job.settings):
        text = job.settings[setting]
        try:
            named[setting] = find_run(text, [target]).run.name
        except UnknownJob as error:
            # The whole name may be of an old job that is no longer listed; its folder may still exist.
            if not WHOLE_NAME.fullmatch(text):
                raise DoesNotFit(f"{setting}: {error.message}", hint=error.hint) from None
    return replace(job, settings={**job.settings, **named}) if named else job


def _find(name: str, target: Target) -> Found[Target]:
    try:
        return find_run(name, [target])
    except UnknownJob as error:
        elsewhere = _target_that_has(name, target)
        if elsewhere is None:
            raise DoesNotFit(f"--depends-on: {error.message}", hint=error.hint) from None
        raise DoesNotFit(
            f"--depends-on: {name} is a job of '{elsewhere}', but one on '{target.name}' cannot wait for it",
            hint=f"submit both on one cluster, or this one after {name} has succeeded",
        ) from None


def _target_that_has(name: str, target: Target) -> str | None:
    for other in find_targets(target.region)[0]:
        if other.name == target.name:
            continue
        try:
            run = find_run(name, [other]).run
        except SlipwayError:
            continue
        if name in (run.id, run.name):
            return other.name
    return None
