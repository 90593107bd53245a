"""Prove lower bounds of makespan and dollars: quick bounds first, then better ones while there is time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import highspy
import numpy as np

from slipway.jobs.plan.search.bounds.cases import raise_by_cases
from slipway.jobs.plan.search.bounds.table import (
    ENOUGH,
    MOST_CUTS,
    Flags,
    Numbers,
    OptionTable,
    add_row,
    new_program,
    solve,
)
from slipway.jobs.plan.search.bounds.worths import (
    CLOSE,
    NEAR,
    KeepGoing,
    Lanes,
    Patterns,
    Tried,
    WorthSearch,
    device_lanes,
    nearness,
)
from slipway.jobs.plan.search.model import LowerBound, Objective
from slipway.jobs.plan.search.options import PlanProblem


def prove(problem: PlanProblem, *, keep_going: KeepGoing, proven: Callable[[LowerBound], None]) -> None:
    """Call `proven` with each higher bound of the goal's objective."""
    if not problem.jobs:
        return
    table = OptionTable(problem)
    if problem.goal.objective is Objective.COST:
        _prove_dollars(table, keep_going, proven)
    else:
        _prove_makespan(table, keep_going, proven)


def _prove_makespan(table: OptionTable, keep_going: KeepGoing, proven: Callable[[LowerBound], None]) -> None:
    best, prices = least_makespan(table)
    name = "chain of dependencies" if best <= table.longest_chain() else "area"
    proven(LowerBound(value=float(best), name="longest job" if best <= table.longest_job() else name))
    worths = np.where(table.fitting(best), prices.of(table), np.inf).min(axis=1)
    for raise_ in (raise_makespan, raise_by_cases):
        for better in raise_(table, best, worths, keep_going):
            best = better
            proven(LowerBound(value=float(best), name="device pattern"))


def _prove_dollars(table: OptionTable, keep_going: KeepGoing, proven: Callable[[LowerBound], None]) -> None:
    least = cheapest(table)
    proven(LowerBound(value=least, name="cheapest modes"))
    deadline = table.problem.goal.deadline
    if deadline is None or deadline < table.longest_chain() or not table.dollars.any():
        return
    with_room, surcharges = least_dollars(table, deadline)
    if with_room > least:
        proven(LowerBound(value=with_room, name="area"))
    known = max(least, with_room)
    for better in raise_dollars(table, deadline, surcharges, keep_going):
        if better > known:
            known = better
            proven(LowerBound(value=better, name="device pattern"))


# Device patterns: each device runs jobs one after the other, which seldom fill all of the time. Give each
# job a worth. A job on g devices earns a g-th of its worth on each of them. Let each device run the jobs that
# earn most in time T. If all devices together earn less than all jobs are worth, no plan ends by T. A linear
# program finds the worths, and gets a row for each pattern of jobs that a knapsack finds missing. Any worths
# prove some bound, so this can be stopped at any moment. Durations are rounded down to units of time.
FIRST_STEP = 0.002  # as a share of the bound so far; each step that succeeds doubles the next
LAST_STEP = 5e-4  # smaller steps are not worth the time


def raise_makespan(table: OptionTable, known: int, worths: Numbers, keep_going: KeepGoing) -> Iterator[int]:
    """Yield ever higher bounds of the makespan, starting above the known one, which these worths prove."""
    horizons = _Horizons(table, worths)
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
    """Keeps the patterns and worths of one horizon for the next."""

    def __init__(self, table: OptionTable, worths: Numbers) -> None:
        self._table, self._worths = table, worths
        self._patterns: Patterns = {}
        self._lanes = device_lanes(table)

    def rule_out(self, horizon: int, keep_going: KeepGoing) -> Iterator[int]:
        """Yield the bound of each try, until the horizon is ruled out or there is no hope of that."""
        search = WorthSearch(self._table, self._lanes, horizon, self._patterns)
        most = 0.0
        for tried, hope in search.tries(self._worths, nearness, keep_going):
            if nearness(tried) > most:
                most, self._worths = nearness(tried), tried.worths / tried.by_time[-1]
            ruled_out = np.flatnonzero(tried.worths.sum() > tried.by_time * (1 + CLOSE))
            proven = search.seconds_after(int(ruled_out[-1])) if len(ruled_out) else 0
            yield proven
            if proven > horizon or hope < max(1.0, most) + NEAR:
                break


# Dollars under a deadline: cheap options take device-seconds, and a pool has a limited number until then. A
# surcharge per device-second of each pool proves a bound: each job pays at least its cheapest option with the
# surcharge; from the sum, the surcharge on all device-seconds of the pools is subtracted. Device patterns
# prove more, as for the makespan: a job's worth is the least that it pays.
HIGHEST_SURCHARGE = 1e3  # in units of the mean price of a device-second


def cheapest(table: OptionTable) -> float:
    """Return what all jobs cost in their cheapest options, regardless of room and time."""
    return float(np.where(table.is_option, table.dollars, np.inf).min(axis=1).sum())


def least_dollars(table: OptionTable, deadline: int) -> tuple[float, Numbers]:
    """Return a bound of the dollars of plans that meet the deadline, and the surcharges that prove it."""
    fitting = table.fitting(deadline)
    pools = len(table.capacity)
    highest = HIGHEST_SURCHARGE * _mean_price(table)
    best, surcharges = -np.inf, np.zeros(pools)
    asked = surcharges
    program = new_program(
        np.append(table.capacity * deadline, -1.0), np.append(np.full(pools, highest), highspy.kHighsInf)
    )
    for _ in range(MOST_CUTS):
        paid = np.where(fitting, table.dollars + asked[table.pool] * table.area, np.inf)
        rows, chosen = np.arange(len(paid)), paid.argmin(axis=1)
        least = paid[rows, chosen].sum() - deadline * (table.capacity * asked).sum()
        if least > best:
            best, surcharges = float(least), asked
        areas = np.bincount(table.pool[rows, chosen], weights=table.area[rows, chosen], minlength=pools)
        add_row(program, np.append(-areas, 1.0), -highspy.kHighsInf, float(table.dollars[rows, chosen].sum()))
        answer = solve(program)
        if answer is None or -answer[1] <= best + ENOUGH * abs(best):
            break
        asked = answer[0][:pools]
    return best, surcharges


def raise_dollars(
    table: OptionTable, deadline: int, surcharges: Numbers, keep_going: KeepGoing
) -> Iterator[float]:
    """Yield ever higher bounds of the dollars, by device patterns."""
    paid = np.where(table.fitting(deadline), table.dollars + surcharges[table.pool] * table.area, np.inf)
    lanes = Lanes(
        of_options=table.devices,
        of_pools=table.capacity,
        payments=table.dollars,
        highest=deadline * (_mean_price(table) + 10 * surcharges),
    )
    best = -np.inf
    search = WorthSearch(table, lanes, deadline, {})
    for tried, hope in search.tries(paid.min(axis=1), _left, keep_going):
        if _left(tried) > best:
            best = _left(tried)
            yield best
        if hope <= best * (1 + NEAR):
            break


def _left(tried: Tried) -> float:
    """Return the least that the jobs pay: their worths less what all devices can earn of them."""
    return float(tried.worths.sum() - tried.by_time[-1])


def _mean_price(table: OptionTable) -> float:
    return float(table.dollars.sum() / table.area[table.is_option].sum())


# Area: jobs need device-seconds, and until a time T a pool has a limited number. A price per device-second of
# each pool proves a bound: whatever options the jobs choose, together they pay at least the sum of their
# cheapest options, which must not exceed the price of all device-seconds until T. Better prices prove more.
HIGHEST_PRICE = 1e4  # of a budget, in budgets a makespan


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Holds the prices of each pool's device-second and of a dollar of the budget, in seconds of makespan."""

    devices: Numbers  # all devices of all pools together cost 1 a second
    dollar: float = 0.0

    def of(self, table: OptionTable) -> Numbers:
        return self.devices[table.pool] * table.area + self.dollar * table.dollars


def least_makespan(table: OptionTable) -> tuple[int, Prices]:
    """Return the makespan below which the pools have too few device-seconds, and the prices that prove it."""
    prices = Prices(devices=np.full(len(table.capacity), 1.0) / table.capacity.sum())
    best = makespan_at(table, prices)
    while len(table.capacity) > 1 or _budget(table) is not None:
        better = _best_prices(table, table.fitting(best))
        found = makespan_at(table, better, best)
        if found <= best:
            break
        best, prices = found, better
    return best, prices


def makespan_at(table: OptionTable, prices: Prices, known: int = 1) -> int:
    """Return the least makespan from `known` on that these prices do not rule out."""
    paid = prices.of(table)
    spent = prices.dollar * (_budget(table) or 0.0)

    def is_ruled_out(makespan: int) -> bool:
        need = np.where(table.fitting(makespan), paid, np.inf).min(axis=1).sum() - spent
        return bool(need > makespan * (1 + ENOUGH))

    low = high = max(known, table.longest_chain())
    if not is_ruled_out(low):
        return low
    while is_ruled_out(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_ruled_out(middle) else (low, middle)
    return high


def _best_prices(table: OptionTable, fitting: Flags) -> Prices:
    """Find the prices by which jobs pay most; each choice that jobs make under them is a new row."""
    pools, budget = len(table.capacity), _budget(table)
    scale = table.area[:, 0].sum() / table.capacity.sum()
    dollar_limit = 0.0 if budget is None else HIGHEST_PRICE * scale / max(budget, 1e-9)
    uppers = np.array([*(1 / np.maximum(table.capacity, 1)), dollar_limit, 10 * HIGHEST_PRICE * scale])
    program = new_program(np.array([0.0] * (pools + 1) + [-1.0]), uppers)
    add_row(program, np.array([*table.capacity, 0.0, 0.0]), 1.0, 1.0)
    best = Prices(devices=np.full(pools, 1.0) / table.capacity.sum())
    most = -np.inf
    prices = best
    for _ in range(MOST_CUTS):
        paid, used = _answer(table, fitting, prices)
        paid -= prices.dollar * (budget or 0.0)
        if paid > most:
            best, most = prices, paid
        add_row(program, np.array([*-used[:-1], (budget or 0.0) - used[-1], 1.0]), -highspy.kHighsInf, 0.0)
        answer = solve(program)
        if answer is None or -answer[1] <= most * (1 + ENOUGH):
            break
        prices = Prices(devices=answer[0][:pools], dollar=float(answer[0][pools]))
    return best


def _answer(table: OptionTable, fitting: Flags, prices: Prices) -> tuple[float, Numbers]:
    """Let each job take its cheapest option; return what all pay, and the areas and dollars that they use."""
    paid = np.where(fitting, prices.of(table), np.inf)
    rows, chosen = np.arange(len(paid)), paid.argmin(axis=1)
    areas = np.bincount(
        table.pool[rows, chosen], weights=table.area[rows, chosen], minlength=len(table.capacity)
    )
    return float(paid[rows, chosen].sum()), np.append(areas, table.dollars[rows, chosen].sum())


def _budget(table: OptionTable) -> float | None:
    return table.problem.goal.budget
