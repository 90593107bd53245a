"""The jobs that another one waits for: found when it is submitted, and read back when it is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slipway.jobs.clusters.deployed import find_targets
from slipway.jobs.core.errors import SlipwayError
from slipway.jobs.core.job import DoesNotFit
from slipway.jobs.core.states import JobState
from slipway.jobs.core.targets import BatchTarget, Target
from slipway.jobs.platforms.batch.runs import describe_jobs, read_run
from slipway.jobs.runs.find import Found, Run, UnknownJob, find_run


def find_dependencies(names: Sequence[str], target: BatchTarget) -> tuple[str, ...]:
    """Ids of jobs on this target; what is unknown, elsewhere or failed would be waited for in vain."""
    found = [_find(name, target).run for name in names]
    for run in found:
        if run.state is JobState.FAILED:
            said = f": {run.reason}" if run.reason else ""
            raise DoesNotFit(
                f"--depends-on: {run.name} failed{said}",
                hint=f"slipway explain {run.name}; then submit it again",
            )
    return tuple(dict.fromkeys(run.id for run in found))


def find_dependencies_of(run: Run, target: Target) -> list[Run]:
    """Those that AWS Batch still knows; nowhere else does a job wait for another."""
    if not isinstance(target, BatchTarget):
        return []
    return [read_run(detail, target) for detail in describe_jobs(target, run.depends_on)]


def not_succeeded(depends_on: Iterable[Run]) -> tuple[str, ...]:
    return tuple(f"{run.name} ({run.status})" for run in depends_on if run.state is not JobState.SUCCEEDED)


def _find(name: str, target: BatchTarget) -> Found:
    try:
        return find_run(name, [target])
    except UnknownJob as error:
        elsewhere = _target_that_has(name, target)
        if elsewhere is None:
            raise DoesNotFit(f"--depends-on: {error.message}", hint=error.hint) from None
        raise DoesNotFit(
            f"--depends-on: {name} is a job of '{elsewhere}', and one on '{target.name}' cannot wait for it",
            hint=f"submit both on one cluster, or this one when {name} has succeeded",
        ) from None


def _target_that_has(name: str, target: BatchTarget) -> str | None:
    for other in find_targets(target.region)[0]:
        if not isinstance(other, BatchTarget) or other.name == target.name:
            continue
        try:
            run = find_run(name, [other]).run
        except SlipwayError:
            continue
        if name in (run.id, run.name):
            return other.name
    return None
