"""Generate lanes: solve the linear program, fill lanes with the jobs that it values most, and repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import highspy
import numpy as np

from slipway.jobs.plan.search.knapsack.filling import fill
from slipway.jobs.plan.search.lanes.board import Floats, Integers, Lane, Menu

SMOOTHING = 0.6  # weight of the best values so far in those of the jobs: halves the rounds
LEAST_GAIN = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Holds how thorough a pass is."""

    room: int = 1000  # units of time in a lane
    lanes_per_kind: int = 4  # new lanes in each round, with no job in common
    gap: float = 0.002  # between the program and its bound
    rounds: int = 200
    window: int = 160  # jobs in the program at once
    refill: float = 0.6  # new jobs are added when this share of the window is left
    step: float = 0.06  # share of the jobs left that is fixed at once
    dive_rounds: int = 3


class Generation:
    """Generates lanes of one length for some jobs."""

    def __init__(self, menu: Menu, horizon: float, effort: Effort, keep_going: Callable[[], bool]) -> None:
        self.menu, self.horizon, self.effort = menu, horizon, effort
        self._keep_going = keep_going
        units = np.rint(menu.seconds * (effort.room / horizon)).astype(np.int64)
        self._units = np.where(menu.seconds > 0, np.maximum(units, 1), effort.room + 1)
        self._knapsack = Knapsack(effort.room, effort.window)
        self._known: set[tuple[int, tuple[int, ...]]] = set()

    def open(self, jobs: Sequence[int], aim: Aim, lanes: Iterable[Lane] = ()) -> None:
        """Begin a program of these jobs, starting from known lanes."""
        self.jobs = np.array(sorted(jobs), dtype=np.int64)
        if len(jobs) > self.effort.window:
            self._knapsack = Knapsack(self.effort.room, len(jobs))
        self.alive = np.ones(len(jobs), dtype=bool)
        self.aim = aim
        self.master = Master(self.menu, [int(job) for job in self.jobs], aim)
        self._known.clear()
        self._open: set[int] = set()
        inside = set(jobs)
        self._add([*self._alone(), *(lane for lane in lanes if inside.issuperset(lane.jobs))])
        self._centre: Floats | None = None
        self._proven = -np.inf
        self.shares = self.master.solve()

    def converge(self, rounds: int | None = None) -> bool:
        """Add lanes until the program is near its bound; return False if no time is left."""
        smoothing = SMOOTHING if rounds is None else 0.0
        for _ in range(rounds or self.effort.rounds):
            if not self._keep_going():
                return False
            guide = self.shares.jobs
            if self._centre is not None and smoothing != 0:
                guide = smoothing * self._centre + (1 - smoothing) * guide
            added = self._price(guide)
            if rounds is None and self.shares.value - self._proven <= self.effort.gap * abs(
                self.shares.value
            ):
                break
            if not added and smoothing < 0.05:
                break
            if not added:
                smoothing /= 2
            else:
                self.shares = self.master.solve()
        return True

    def close_broken(self, fixed: Iterable[Lane]) -> None:
        """Close the lanes that contain a job of a fixed lane."""
        dead = set(self.jobs[~self.alive].tolist())
        kept = {(lane.kind, lane.jobs) for lane in fixed}
        for place in sorted(self._open):
            lane = self.master.lanes[place]
            if not dead.isdisjoint(lane.jobs):
                self._open.discard(place)
                if (lane.kind, lane.jobs) not in kept:
                    self.master.close(place)

    def _price(self, guide: Floats) -> int:
        added = 0
        most = np.zeros(len(self.aim.capacity))
        for kind in range(len(self.menu.devices)):
            values, lanes = self._fill(kind, guide)
            if values:
                pool, devices = self.menu.pools[kind], self.menu.devices[kind]
                most[pool] = max(most[pool], values[0] / devices)
            added += self._add(lane for lane in lanes if self._gains(lane))
        # Keep the values of jobs that prove the highest bound of the program.
        aim = self.aim
        if aim.is_dollars:
            proven = float(guide.sum() - aim.capacity @ most)
        else:
            whole = float(aim.capacity @ most)
            proven = aim.penalty * float(guide.sum()) / max(whole, 1e-12)
        if proven > self._proven:
            self._proven = proven
            self._centre = guide if aim.is_dollars else guide * (aim.penalty / max(whole, 1e-12))
        return added

    def _fill(self, kind: int, guide: Floats) -> tuple[list[float], list[Lane]]:
        """Fill several lanes of one kind, each from the jobs that the lanes before it left."""
        units = self._units[kind, self.jobs]
        values = guide - self.menu.dollars[kind, self.jobs] if self.aim.is_dollars else guide
        able = np.flatnonzero((values > 1e-12) & (units <= self.effort.room) & self.alive)
        able = able[np.argsort(-values[able] / units[able], kind="stable")]
        found: list[float] = []
        lanes: list[Lane] = []
        enough = 0.97 * self._price_of(kind)
        for _ in range(self.effort.lanes_per_kind):
            if not len(able) or (found and found[-1] < enough):
                break
            value, chosen = self._knapsack.fill(values[able], units[able])
            found.append(value)
            lanes.append(Lane(kind=kind, jobs=tuple(sorted(int(job) for job in self.jobs[able[chosen]]))))
            able = np.delete(able, chosen)[:64]
        return found, lanes

    def _price_of(self, kind: int) -> float:
        return float(self.shares.pools[self.menu.pools[kind]] * self.menu.devices[kind])

    def _gains(self, lane: Lane) -> bool:
        rows = np.searchsorted(self.jobs, lane.jobs)
        value = float(self.shares.jobs[rows].sum())
        if self.aim.is_dollars:
            cost = float(self.menu.dollars[lane.kind, list(lane.jobs)].sum()) + self._price_of(lane.kind)
            return value > cost + LEAST_GAIN * abs(cost)
        return value > self._price_of(lane.kind) * (1 + LEAST_GAIN)

    def _add(self, lanes: Iterable[Lane]) -> int:
        new = []
        for lane in lanes:
            if (lane.kind, lane.jobs) not in self._known:
                self._known.add((lane.kind, lane.jobs))
                new.append(lane)
        self._open.update(range(len(self.master.lanes), len(self.master.lanes) + len(new)))
        self.master.add(new)
        return len(new)

    def _alone(self) -> Iterable[Lane]:
        """Yield for each job and pool the lane of least area that has only this job."""
        areas = self.menu.areas(self.horizon)
        for pool in np.flatnonzero(self.aim.capacity):
            kinds = np.flatnonzero(self.menu.pools == pool)
            for job in self.jobs:
                kind = kinds[int(areas[kinds, job].argmin())]
                if np.isfinite(areas[kind, job]):
                    yield Lane(kind=int(kind), jobs=(int(job),))


# The linear program that divides the devices among lanes, so that every job is on one.
PRIMAL_SIMPLEX = 4  # HiGHS's code; after columns were added, the last basis is still primal feasible


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Holds an optimum: how much of each lane is used, and what jobs and devices are worth."""

    value: float
    lanes: Floats
    jobs: Floats
    pools: Floats  # the worth of one device


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Holds what to minimise: the devices needed, or dollars on the available devices."""

    capacity: Floats  # devices of each pool
    is_dollars: bool = False
    penalty: float = 1.0  # for needing twice the devices that there are


class Master:
    """Holds the program while lanes are added, fixed and closed."""

    def __init__(self, menu: Menu, jobs: Sequence[int], aim: Aim) -> None:
        self._menu, self._aim = menu, aim
        self._rows = {job: row for row, job in enumerate(jobs)}
        self.lanes: list[Lane] = []
        solver = highspy.Highs()  # type: ignore[no-untyped-call]  # its stub gives no return type
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("simplex_strategy", PRIMAL_SIMPLEX)
        for _ in jobs:
            solver.addRow(1.0, highspy.kHighsInf, 0, [], [])
        for devices in aim.capacity:
            solver.addRow(-highspy.kHighsInf, float(devices) if aim.is_dollars else 0.0, 0, [], [])
        pools = len(aim.capacity)
        rows = np.arange(len(jobs), len(jobs) + pools, dtype=np.int32)
        solver.addCol(aim.penalty, 0.0, highspy.kHighsInf, pools, rows, -aim.capacity)
        self._solver = solver

    def add(self, lanes: Iterable[Lane]) -> None:
        for lane in lanes:
            rows = [self._rows[job] for job in lane.jobs]
            pool = len(self._rows) + int(self._menu.pools[lane.kind])
            width = float(self._menu.devices[lane.kind])
            cost = (
                float(self._menu.dollars[lane.kind, list(lane.jobs)].sum()) if self._aim.is_dollars else 0.0
            )
            self._solver.addCol(
                cost,
                0.0,
                highspy.kHighsInf,
                len(rows) + 1,
                np.array([*rows, pool], dtype=np.int32),
                np.array([1.0] * len(rows) + [width]),
            )
            self.lanes.append(lane)

    def solve(self) -> Shares:
        self._solver.run()
        solution = self._solver.getSolution()
        duals = np.array(solution.row_dual)
        jobs = len(self._rows)
        return Shares(
            value=float(self._solver.getObjectiveValue()),
            lanes=np.array(solution.col_value)[1:],
            jobs=np.maximum(duals[:jobs], 0.0),
            pools=np.maximum(-duals[jobs:], 0.0),
        )

    def fix(self, lane: int) -> None:
        self._solver.changeColBounds(lane + 1, 1.0, 1.0)

    def close(self, lane: int) -> None:
        self._solver.changeColBounds(lane + 1, 0.0, 0.0)


# Fill one lane with the most valuable jobs: a knapsack over coarse time.


class Knapsack:
    """Solves knapsacks of one capacity exactly, in a table that is reused."""

    def __init__(self, room: int, items: int) -> None:
        self._room = room
        self._most = np.zeros((items + 1, room + 1))
        self._first = np.arange(items + 1)  # each item has one option

    def fill(self, values: Floats, weights: Integers) -> tuple[float, list[int]]:
        """Choose the items of most value whose weights, each from 1 to the room, fit together."""
        fill(self._most, self._first[: len(values) + 1], weights, values)
        left, chosen, lengths = self._room, [], weights.tolist()
        for item in range(len(lengths) - 1, -1, -1):
            if self._most[item + 1, left] > self._most[item, left]:
                chosen.append(item)
                left -= lengths[item]
        return float(self._most[len(values), self._room]), chosen
