"""Area: jobs need device-seconds, and until a moment a pool has only so many.

A price for a device-second of each pool proves it: whatever each job chooses, all jobs together pay at least
the sum of their cheapest options, and all device-seconds until T cost only so much. Better prices prove more.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from slipway.jobs.plan.search.bounds.linear import ENOUGH, MOST_CUTS, add_row, new_program, solve
from slipway.jobs.plan.search.bounds.table import Flags, Numbers, OptionTable

HIGHEST_PRICE = 1e4  # of a budget, in budgets a makespan


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Says what a device-second of each pool costs, and a dollar of the budget, in seconds of makespan."""

    devices: Numbers  # all devices of all pools together cost 1 a second
    dollar: float = 0.0

    def of(self, table: OptionTable) -> Numbers:
        return self.devices[table.pool] * table.area + self.dollar * table.dollars


def least_makespan(table: OptionTable) -> tuple[int, Prices]:
    """Return the makespan below which the pools have too little, and the prices that prove it."""
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
    """Return the least makespan, from a known bound on, that these prices do not rule out."""
    paid = prices.of(table)
    spent = prices.dollar * (_budget(table) or 0.0)

    def is_ruled_out(makespan: int) -> bool:
        need = _cheapest(paid, table.fitting(makespan)).sum() - spent
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


def _cheapest(paid: Numbers, fitting: Flags) -> Numbers:
    least: Numbers = np.where(fitting, paid, np.inf).min(axis=1)
    return least


def _best_prices(table: OptionTable, fitting: Flags) -> Prices:
    """Raise what the jobs have to pay, one line more for each choice that they answer prices with."""
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
    """Let each job take what is cheapest: return what all pay, the areas of pools and the dollars used."""
    paid = np.where(fitting, prices.of(table), np.inf)
    rows, chosen = np.arange(len(paid)), paid.argmin(axis=1)
    areas = np.bincount(
        table.pool[rows, chosen], weights=table.area[rows, chosen], minlength=len(table.capacity)
    )
    return float(paid[rows, chosen].sum()), np.append(areas, table.dollars[rows, chosen].sum())


def _budget(table: OptionTable) -> float | None:
    return table.problem.goal.budget
