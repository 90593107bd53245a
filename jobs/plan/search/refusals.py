"""Refuse before any search what cannot be planned, in one line: what, its value, what is allowed, what to do.

To add a rule on inputs, add a generator to _RULES. inputs/planning.py refuses goals that no plan can reach.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from slipway.jobs.plan.search.model import Billing, Goal, Mode, Objective, PlanJob, Pool
from slipway.jobs.plan.search.options import has_room, jobs_with_deadlines, options_of
from slipway.jobs.words.errors import SlipwayError, did_you_mean
from slipway.jobs.words.given import wrong_record
from slipway.jobs.words.run import SECONDS_PER_HOUR
from slipway.jobs.words.text import printable

MOST_JOBS = 10_000
MOST_MODES = 1_000  # of a job
MOST_NODES = 10_000  # of a pool
MOST_DEVICES_PER_NODE = 1_024
MOST_SECONDS = 1_000_000_000  # 31 years
MOST_DOLLARS_PER_HOUR = 1_000_000.0
LONGEST_NAME = 200
# A line break or a control character in a name would forge lines wherever the name is shown.
_REFUSED_CHARACTERS = frozenset({"Cc", "Cs", "Zl", "Zp"})


class CannotPlan(SlipwayError):
    """Reports jobs, pools or a goal that have no plan; the hint says what to change."""

    exit_code = 2


Word = TypeVar("Word", Objective, Billing)
Told = Iterator[tuple[str, str]]  # what is wrong, and what to do


def refuse_inputs(jobs: Sequence[PlanJob], pools: Sequence[Pool], goal: Goal) -> None:
    """Raise CannotPlan with the first thing that is wrong, and how many more there are."""
    for rule in _RULES:
        problems = list(rule(jobs, pools, goal))
        if problems:
            message, hint = problems[0]
            more = f" (and {len(problems) - 1} more like it)" if len(problems) > 1 else ""
            raise CannotPlan(message + more, hint=hint)


def word_of(what: str, value: object, words: type[Word]) -> Word:
    """Return the member of an enumeration by its text; refuse other texts."""
    try:
        return words(str(value))
    except ValueError:
        raise CannotPlan(
            f"{what} is {quoted(str(value))}; allowed is {' or '.join(words)}", hint="use one of these"
        ) from None


def quoted(name: str) -> str:
    return f"'{printable(name[:60])}{'…' if len(name) > 60 else ''}'"


def shown(number: float) -> str:
    """Return a number as text, or only its number of digits if it is very long."""
    if not isinstance(number, int) or abs(number) < 10**18:
        return str(number)
    return f"a number of {int(abs(number).bit_length() * math.log10(2)) + 1} digits"


def _types(jobs: Sequence[PlanJob], pools: Sequence[Pool], _goal: Goal) -> Told:
    """Yield fields whose value has the wrong type; files are checked for this when they are read."""
    for where, record in (
        *((f"pool {place}", pool) for place, pool in enumerate(pools)),
        *((f"job {place}", job) for place, job in enumerate(jobs)),
    ):
        wrong = list(wrong_record(record))
        for mode in record.modes if isinstance(record, PlanJob) and not wrong else ():
            wrong += wrong_record(mode)
        yield from ((f"{where}: {problem}", f"correct {problem.where}") for problem in wrong)


def _there_is_something(jobs: Sequence[PlanJob], pools: Sequence[Pool], _goal: Goal) -> Told:
    if not jobs:
        yield "there are no jobs to plan", "list at least one under 'jobs'"
    if len(jobs) > MOST_JOBS:
        yield f"there are {len(jobs)} jobs; at most {MOST_JOBS} are planned together", "plan them in parts"
    if not pools:
        yield "there are no pools to run jobs in", "list at least one under 'pools'"


def _pools(_jobs: Sequence[PlanJob], pools: Sequence[Pool], _goal: Goal) -> Told:
    for place, pool in enumerate(pools):
        where = f"pool {place} ({printable(pool.type[:60])})"
        if not pool.type or _bad_character(pool.type):
            yield (
                f"pool {place}: its type is {quoted(pool.type)}",
                "name an instance type, such as p4d.24xlarge",
            )
        for what, value, low, high, hint in (
            ("nodes", pool.nodes, 1, MOST_NODES, "leave out a pool that has no nodes"),
            ("devices_per_node", pool.devices_per_node, 1, MOST_DEVICES_PER_NODE, ""),
            ("rework_seconds", pool.rework_seconds, 0, MOST_SECONDS, ""),
        ):
            if not _is_whole(value, low, high):
                yield (
                    f"{where}: {what} is {shown(value)}; allowed is {low} to {high}",
                    hint or f"correct {what}",
                )
        for what, rate in (
            ("price_per_hour", pool.price_per_hour),
            ("interruptions_per_hour", pool.interruptions_per_hour),
        ):
            if not 0 <= rate <= MOST_DOLLARS_PER_HOUR:
                yield (
                    f"{where}: {what} is {rate}; allowed is 0 to {MOST_DOLLARS_PER_HOUR:g}",
                    f"correct {what}",
                )
        if pool.is_spot and pool.interruptions_per_hour * pool.rework_seconds > SECONDS_PER_HOUR:
            rates = f"{pool.interruptions_per_hour:g} interruptions an hour take {pool.rework_seconds} s each"
            yield (
                f"{where}: {rates}, which is more than a whole hour",
                "correct interruptions_per_hour or rework_seconds",
            )


def _names(jobs: Sequence[PlanJob], _pools: Sequence[Pool], _goal: Goal) -> Told:
    for place, job in enumerate(jobs):
        if not job.name or len(job.name) > LONGEST_NAME or _bad_character(job.name):
            yield (
                f"job {place} is named {quoted(job.name)}; allowed is 1 to {LONGEST_NAME} characters of text",
                "rename it",
            )
    for name, times in Counter(job.name for job in jobs).items():
        if times > 1:
            yield (
                f"{times} jobs are named {quoted(name)}; a plan tells jobs apart by name",
                "rename all but one",
            )


def _modes(jobs: Sequence[PlanJob], _pools: Sequence[Pool], _goal: Goal) -> Told:
    for job in jobs:
        if not 1 <= len(job.modes) <= MOST_MODES:
            yield (
                f"job {quoted(job.name)} has {len(job.modes)} modes; allowed is 1 to {MOST_MODES}",
                "give each way to run it: technique, type, devices and seconds",
            )
        for mode in job.modes:
            yield from _wrong_mode(f"job {quoted(job.name)}, {words_of(mode)}", mode)


def words_of(mode: Mode) -> str:
    """Describe a mode in words."""
    devices = f"{shown(mode.devices)} device{'' if mode.devices == 1 else 's'}"
    return f"{printable(mode.technique[:60])} on {devices} of {printable(mode.type[:60])}"


def _wrong_mode(where: str, mode: Mode) -> Told:
    if not _is_whole(mode.seconds, 1, MOST_SECONDS):
        yield (
            f"{where}: seconds is {shown(mode.seconds)}; allowed is 1 to {MOST_SECONDS}",
            "leave out a mode that cannot run, or measure it again",
        )
    most = MOST_NODES * MOST_DEVICES_PER_NODE
    if not _is_whole(mode.devices, 1, most):
        yield f"{where}: devices is {shown(mode.devices)}; allowed is 1 to {most}", "correct the devices"
    if not 0 <= mode.error < math.inf:
        yield f"{where}: error is {mode.error}; allowed is a share of its seconds, 0 or more", "correct it"


def _dependencies(jobs: Sequence[PlanJob], _pools: Sequence[Pool], _goal: Goal) -> Told:
    names = [job.name for job in jobs]
    known = set(names)
    for job in jobs:
        for before in job.depends_on:
            if before not in known:
                yield (
                    f"job {quoted(job.name)} waits for {quoted(before)}, and there is no such job",
                    did_you_mean(before, names, otherwise="add that job, or leave out the dependency"),
                )


def _circles(jobs: Sequence[PlanJob], _pools: Sequence[Pool], _goal: Goal) -> Told:
    try:
        TopologicalSorter({job.name: job.depends_on for job in jobs}).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        shown = [*circle[:5], "…"] if len(circle) > 6 else circle
        yield (
            f"jobs wait for each other in a circle: {' after '.join(printable(name[:60]) for name in shown)}",
            "leave out one of these dependencies",
        )


def _goal_numbers(jobs: Sequence[PlanJob], _pools: Sequence[Pool], goal: Goal) -> Told:
    deadlines = [("the deadline", goal.deadline)]
    deadlines += [(f"job {quoted(job.name)}: its deadline", job.deadline) for job in jobs]
    for what, deadline in deadlines:
        if deadline is not None and not _is_whole(deadline, 1, MOST_SECONDS):
            yield (
                f"{what} is {shown(deadline)} s; allowed is 1 to {MOST_SECONDS}",
                "give it in seconds from the start",
            )
    if goal.budget is not None and not 0 <= goal.budget < math.inf:
        yield (
            f"the budget is {goal.budget} dollars; allowed is 0 or more",
            "give the most dollars that the plan may cost",
        )


def _room(jobs: Sequence[PlanJob], pools: Sequence[Pool], _goal: Goal) -> Told:
    types = list(dict.fromkeys(pool.type for pool in pools))
    for job in jobs:
        modes = [mode for mode in job.modes if mode.type in types]
        if not modes:
            asked = list(dict.fromkeys(mode.type for mode in job.modes))
            runs, have = _listed(asked), _listed(types)
            yield (
                f"job {quoted(job.name)} fits no pool: it runs on {runs}, and the pools have {have}",
                did_you_mean(
                    asked[0], types, otherwise=f"add a pool of {printable(asked[0][:60])}, or a mode"
                ),
            )
        elif not any(has_room(mode, pool) for mode in modes for pool in pools if pool.type == mode.type):
            yield _too_small(job, min(modes, key=lambda mode: mode.devices), pools)


def _sure_room(jobs: Sequence[PlanJob], pools: Sequence[Pool], _goal: Goal) -> Told:
    """Refuse a job with a deadline that fits only spot pools: spot nodes may be unavailable at any time."""
    with_deadlines = jobs_with_deadlines(jobs)
    for job in jobs:
        found = list(options_of(job, pools)) if job.name in with_deadlines else []
        if found and all(pools[option.pool].is_spot for option in found):
            yield (
                f"job {quoted(job.name)} has to end by a deadline, and every pool that it fits is spot",
                "add a pool that is on demand, or leave out the deadline",
            )


def _too_small(job: PlanJob, mode: Mode, pools: Sequence[Pool]) -> tuple[str, str]:
    """Return why the job's smallest mode does not fit the largest pool of its type, and what would fit."""
    pool = max((pool for pool in pools if pool.type == mode.type), key=lambda pool: pool.devices)
    told = f"job {quoted(job.name)} fits no pool: the least it takes is {words_of(mode)}, and "
    node, type_name = pool.devices_per_node, printable(pool.type[:60])
    if mode.devices > pool.devices:
        nodes = math.ceil(mode.devices / node)
        return (
            f"{told}the largest such pool has {pool.devices}",
            f"it would fit {nodes} nodes of {type_name}, or with a mode on at most {pool.devices} devices",
        )
    if not pool.spans_nodes:
        return (
            f"{told}nodes of {type_name} have {node} and no EFA to join several",
            f"it would fit with a mode on at most {node} devices, or if the pool sets spans_nodes to true",
        )
    return (
        f"{told}a job beyond one node takes whole nodes of {node}",
        f"it would fit on {math.ceil(mode.devices / node) * node} devices, or on at most {node}",
    )


def _listed(names: Sequence[str]) -> str:
    shown = [printable(name[:60]) for name in names[:5]]
    return ", ".join([*shown, "…"] if len(names) > 5 else shown)


def _is_whole(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _bad_character(text: str) -> bool:
    return any(unicodedata.category(character) in _REFUSED_CHARACTERS for character in text)


_RULES = (
    _there_is_something,
    _types,
    _pools,
    _names,
    _modes,
    _dependencies,
    _circles,
    _goal_numbers,
    _room,
    _sure_room,
)
