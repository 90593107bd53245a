"""Raise the bound of few jobs' makespan by cases: rule out a time for each choice of options on its own.

Device patterns may split a job: half of it runs in one option, half in another. Here such a job's options are
divided into two cases, and each is ruled out by worths of its own, or divided again: a branch and bound. A
time is ruled out when no case is left. Durations are not rounded, or hardly: some plans are proven optimal.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slipway.jobs.plan.search.bounds.table import Flags, Numbers, OptionTable
from slipway.jobs.plan.search.bounds.worths import (
    CLOSE,
    KeepGoing,
    Patterns,
    WorthSearch,
    device_lanes,
    nearness,
)

MOST_JOBS = 30  # with more, cases take too long
MOST_CASES = 2000  # for one horizon; after that it counts as not ruled out
UNITS = 2**16  # of time until the horizon: up to 18 hours, these are seconds
NEAR = 1e-5  # as a share: worths as near to the best as this are good enough
FIRST_STEP = 5e-4  # as a share of the bound so far; each step that succeeds doubles the next
DECIDED = 0.01  # a job that runs elsewhere by no more than this is not split


def raise_by_cases(table: OptionTable, known: int, worths: Numbers, keep_going: KeepGoing) -> Iterator[int]:
    """Yield ever higher bounds of the makespan, starting above the known one."""
    if len(table.problem.jobs) > MOST_JOBS:
        return
    cases = _Cases(table, worths)
    best, beyond, step = known, 0, FIRST_STEP
    while keep_going() and best != beyond:
        # A time that cannot be ruled out takes few cases, so try far ones.
        horizon = beyond - max(1, (beyond - best) // 4) if beyond else int(best * (1 + step))
        if cases.rule_out(horizon, keep_going):
            best = horizon + 1
            yield best
        else:
            beyond = horizon
        step *= 2


class _Cases:
    """Keeps the patterns of one case for the next."""

    def __init__(self, table: OptionTable, worths: Numbers) -> None:
        self._table, self._worths = table, worths
        self._lanes = device_lanes(table)
        self._patterns: Patterns = {}

    def rule_out(self, horizon: int, keep_going: KeepGoing) -> bool:
        """Return True if no plan ends by the horizon; False if that is not known."""
        left = [(self._table.is_option, self._worths)]
        for _ in range(MOST_CASES):
            if not left:
                return True
            options, worths = left.pop()
            found = self._split(self._table.only(options), worths, horizon, keep_going)
            if found is None or not keep_going():
                return False
            left.extend(found)
        return not left

    def _split(
        self, table: OptionTable, worths: Numbers, horizon: int, keep_going: KeepGoing
    ) -> list[tuple[Flags, Numbers]] | None:
        """Return the cases of a case, none if it is ruled out; None if no job is split."""
        if not table.fitting(horizon).any(axis=1).all():
            return []
        search = WorthSearch(table, self._lanes, horizon, self._patterns, UNITS)
        most = 0.0
        for tried, hope in search.tries(worths, nearness, keep_going):
            if nearness(tried) > 1 + CLOSE:
                return []
            if nearness(tried) > most:
                most, worths = nearness(tried), tried.worths / tried.by_time[-1]
            if hope < max(1.0, most) + NEAR:
                break
        halves = _halves(table, search.shares())
        return None if halves is None else [(half, worths) for half in halves]


def _halves(table: OptionTable, shares: Numbers) -> tuple[Flags, Flags] | None:
    """Divide the options of the job that is split most: by pool if it is split over pools, else one option.

    The half that has more of the job is the last: it comes first.
    """
    places = np.broadcast_to(np.arange(shares.shape[1]), shares.shape)
    for groups in (table.pool, places):
        inside = np.stack(
            [np.where(groups == group, shares, 0.0).sum(axis=1) for group in range(groups.max() + 1)]
        )
        split = np.minimum(inside, 1 - inside)
        if split.max() > DECIDED:
            group, job = np.unravel_index(int(split.argmax()), split.shape)
            within, without = table.is_option.copy(), table.is_option.copy()
            within[job] &= groups[job] == group
            without[job] &= groups[job] != group
            return (without, within) if inside[group, job] > 1 / 2 else (within, without)
    return None
