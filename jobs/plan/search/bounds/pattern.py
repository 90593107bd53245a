"""Device patterns: each device runs jobs one after the other, and they seldom fill the time to the brim.

Give each job a worth. A job on g devices earns a g-th of its worth on each of them. If all devices together,
each with the jobs that earn most in time T, earn less than all jobs are worth, no plan ends by T. A linear
program finds the worths; it gets a row for each pattern of jobs that a knapsack shows it has not thought of.
Any worths prove something, so this can be stopped at any moment. Durations are rounded down to units of time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slipway.jobs.plan.search.bounds.area import Prices
from slipway.jobs.plan.search.bounds.table import Numbers, OptionTable
from slipway.jobs.plan.search.bounds.worth_search import CLOSE, NEAR, KeepGoing, Patterns, Tried, WorthSearch
from slipway.jobs.plan.search.bounds.worths import Lanes

FIRST_STEP = 0.002  # of the bound so far; as long as that succeeds, the next is twice as long
LAST_STEP = 5e-4  # smaller ones are not worth the time


def raise_makespan(table: OptionTable, known: int, prices: Prices, keep_going: KeepGoing) -> Iterator[int]:
    """Yield higher and higher bounds of the makespan, all above the known one, which these prices prove."""
    horizons = _Horizons(table, np.where(table.fitting(known), prices.of(table), np.inf).min(axis=1))
    best, beyond, step = known, 0, FIRST_STEP
    while keep_going() and not (beyond and beyond - best <= max(1, best * LAST_STEP)):
        horizon = (best + beyond) // 2 if beyond else max(best, int(best * (1 + step)))
        for proven in horizons.rule_out(horizon, keep_going):
            if proven > best:
                best = proven
                yield best
        if best <= horizon:
            beyond = horizon
        step *= 2


class _Horizons:
    """Keeps what one horizon has taught for the next."""

    def __init__(self, table: OptionTable, worths: Numbers) -> None:
        self._table, self._worths = table, worths
        self._patterns: Patterns = {}
        self._lanes = Lanes(
            of_options=table.devices,
            of_pools=table.capacity,
            payments=np.zeros_like(table.devices),
            highest=np.full(len(table.capacity), np.inf),
        )

    def rule_out(self, horizon: int, keep_going: KeepGoing) -> Iterator[int]:
        """Yield what each try proves, until the horizon is ruled out or there is no hope."""
        search = WorthSearch(self._table, self._lanes, horizon, self._patterns)
        most = 0.0
        for tried, hope in search.tries(self._worths, _nearness, keep_going):
            if _nearness(tried) > most:
                most, self._worths = _nearness(tried), tried.worths / tried.by_time[-1]
            ruled_out = np.flatnonzero(tried.worths.sum() > tried.by_time * (1 + CLOSE))
            proven = search.seconds_after(int(ruled_out[-1])) if len(ruled_out) else 0
            yield proven
            if proven > horizon or hope < max(1.0, most) + NEAR:
                break


def _nearness(tried: Tried) -> float:
    """Return how near the horizon is to being ruled out: from 1 on, it is."""
    return float(tried.worths.sum() / max(tried.by_time[-1], CLOSE))
