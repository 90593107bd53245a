"""Dollars under a deadline: cheap options take device-seconds, of which a pool has only so many until then.

A surcharge for a device-second of each pool proves it: each job pays at least its cheapest option with the
surcharge, and what the pools' device-seconds cost by it comes off again. Patterns of devices prove more, as
they do for the makespan: a job's worth is what it pays at least.
"""

from __future__ import annotations

from collections.abc import Iterator

import highspy
import numpy as np

from slipway.jobs.plan.search.bounds.linear import ENOUGH, MOST_CUTS, add_row, new_program, solve
from slipway.jobs.plan.search.bounds.table import Numbers, OptionTable
from slipway.jobs.plan.search.bounds.worth_search import NEAR, KeepGoing, Tried, WorthSearch
from slipway.jobs.plan.search.bounds.worths import Lanes

HIGHEST_SURCHARGE = 1e3  # in the mean price of a device-second


def cheapest(table: OptionTable) -> float:
    """Return what all jobs cost in their cheapest options, with no regard to room or time."""
    return float(np.where(table.is_option, table.dollars, np.inf).min(axis=1).sum())


def least_dollars(table: OptionTable, deadline: int) -> tuple[float, Numbers]:
    """Return a bound of the dollars of plans that end by then, and the surcharges that prove it."""
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
    """Yield higher and higher bounds of the dollars, by device patterns."""
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
    """Return what the jobs pay at least: their worths, less what all devices can earn of them."""
    return float(tried.worths.sum() - tried.by_time[-1])


def _mean_price(table: OptionTable) -> float:
    return float(table.dollars.sum() / table.area[table.is_option].sum())
