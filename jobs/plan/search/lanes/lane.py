"""The words of this folder: kinds of lanes, lanes with jobs, and what each job takes on each kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slipway.jobs.plan.search.options import Option, PlanProblem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LaneKind:
    """So many devices of one pool; beyond a node, whole nodes."""

    pool: int
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Jobs that follow each other on the same devices."""

    kind: int  # its place in the menu
    jobs: tuple[int, ...]


class Menu:
    """Knows for every kind of lane and every job how long it takes there, and what it costs."""

    def __init__(self, problem: PlanProblem) -> None:
        self.kinds = kinds_of(problem)
        places = {kind: place for place, kind in enumerate(self.kinds)}
        shape = (len(self.kinds), len(problem.jobs))
        self.seconds: Integers = np.zeros(shape, dtype=np.int64)  # 0: does not run there
        self.dollars: Floats = np.zeros(shape)
        self.options: dict[tuple[int, int], Option] = {}
        for job, options in enumerate(problem.options):
            for option in options:
                kind = places[LaneKind(pool=option.pool, devices=option.devices)]
                self.seconds[kind, job] = max(1, option.seconds)
                self.dollars[kind, job] = option.dollars
                self.options[kind, job] = option
        self.devices: Integers = np.array([kind.devices for kind in self.kinds], dtype=np.int64)
        self.pools: Integers = np.array([kind.pool for kind in self.kinds], dtype=np.int64)
        self.capacity: Floats = np.array([float(pool.devices) for pool in problem.pools])

    def areas(self, horizon: float) -> Floats:
        """Return the device-seconds of every job on every kind; infinite beyond the horizon."""
        fits = (self.seconds > 0) & (self.seconds <= horizon)
        return np.where(fits, self.seconds * self.devices[:, None], np.inf)

    def length(self, lane: Lane) -> int:
        return int(self.seconds[lane.kind, list(lane.jobs)].sum())


def kinds_of(problem: PlanProblem) -> list[LaneKind]:
    every: Iterable[Option] = (option for options in problem.options for option in options)
    return sorted({LaneKind(pool=option.pool, devices=option.devices) for option in every})
