"""Which search runs when on which core: what was measured to find most on problems of each size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count

from slipway.jobs.plan.search.model import Objective
from slipway.jobs.plan.search.options import PlanProblem

FEW_JOBS = 30  # so many an exact search can still settle
SOME_JOBS = 200  # beyond, annealing gains less than lanes do
SERIAL = ("bound", "lanes", "annealing")  # where iterations count, not time: exact search counts none
# The package that a search needs beside the base install.
EXTRAS = {"annealing": "numba", "exact": "ortools"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Gives a search a share of the whole time; it may end earlier."""

    search: str
    share: float
    seed: int


def shifts_of(problem: PlanProblem, cores: int, seed: int) -> list[Iterator[Shift]]:
    """Return the shifts of each core, one after the other without an end."""
    table = _table(problem)
    if cores == 1:
        both = [(search, share / 2) for pair in zip(*table, strict=False) for search, share in pair]
        table = (both,)
    return [_present(rows, seed + core) for core, rows in enumerate(table)]


def _table(problem: PlanProblem) -> Sequence[Sequence[tuple[str, float]]]:
    jobs = len(problem.jobs)
    if jobs <= FEW_JOBS:
        return (
            [("annealing", 0.1), ("exact", 0.9)],
            [("bound", 0.3), ("lanes", 0.1), ("annealing", 0.6)],
        )
    if _has_conditions(problem):
        return (
            [("annealing", 1.0)],
            [("bound", 0.3), ("lanes", 0.2), ("annealing", 0.5)],
        )
    if jobs <= SOME_JOBS:
        return (
            [("lanes", 0.4), ("annealing", 0.6)],
            [("bound", 0.5), ("lanes", 0.2), ("annealing", 0.3)],
        )
    return (
        [("lanes", 1.0)],
        [("bound", 0.5), ("lanes", 0.5)],
    )


def _has_conditions(problem: PlanProblem) -> bool:
    """Return True where more counts than the last job's end, which is what lanes make early."""
    goal = problem.goal
    return (
        goal.objective is Objective.COST
        or goal.budget is not None
        or any(problem.after)
        or any(job.deadline is not None for job in problem.jobs)
    )


def _present(rows: Sequence[tuple[str, float]], seed: int) -> Iterator[Shift]:
    """Yield the shifts whose search is installed, then plain searches with other seeds."""
    rows = [(search, share) for search, share in rows if is_installed(search)]
    for search, share in rows:
        yield Shift(search=search, share=share, seed=seed)
    again = [search for search, _ in rows if search != "bound"] or ["lanes"]
    for turn in count(1):
        for search in again:
            yield Shift(search=search, share=0.25, seed=seed + 100 * turn)


def is_installed(search: str) -> bool:
    return search not in EXTRAS or find_spec(EXTRAS[search]) is not None
