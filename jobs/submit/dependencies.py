"""The jobs that another one waits for, found when it is submitted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from slipway.jobs.cloud.deployed import find_targets
from slipway.jobs.platforms.registry import waiting_of
from slipway.jobs.submit.find import UnknownJob, find_run
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import DoesNotFit, Job
from slipway.jobs.words.run import Found
from slipway.jobs.words.states import JobState
from slipway.jobs.words.targets import Target

_WHOLE_NAME = re.compile(r".+-[0-9a-f]{12}(-[0-9]+)?", re.ASCII)


def find_dependencies(names: Sequence[str], target: Target) -> tuple[str, ...]:
    """Return ids of jobs on this target; refuse what is unknown, elsewhere or failed."""
    if waiting_of(target) is None:
        return ()  # its platform refuses a job that names any
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
    """Return the job with these settings naming other jobs as their folders do."""
    given = {setting: job.settings[setting] for setting in settings if setting in job.settings}
    named = {setting: _whole_name(setting, text, target) for setting, text in given.items()}
    return replace(job, settings={**job.settings, **named}) if named else job


def _whole_name(setting: str, text: str, target: Target) -> str:
    try:
        return find_run(text, [target]).run.name
    except UnknownJob as error:
        if _WHOLE_NAME.fullmatch(text):
            return text  # it ended long ago: its folder may be there yet
        raise DoesNotFit(f"{setting}: {error.message}", hint=error.hint) from None


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
