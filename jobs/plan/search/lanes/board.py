"""Place lanes on nodes, and other jobs into the gaps that waste least."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slipway.jobs.plan.search.list_schedule import Slot
from slipway.jobs.plan.search.model import NodeDevices
from slipway.jobs.plan.search.options import Option, PlanProblem

LATE = 1e6  # the weight of a second beyond the horizon, in lost device-seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Worths:
    """Holds what a job uses up on each kind of lane, and what a wasted device-second of each pool costs."""

    jobs: Floats
    pools: Floats
    are_dollars: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A place for a job, and what is wasted there."""

    loss: float
    start: int
    kind: int
    node: int  # for whole nodes: 0
    first: int  # the first device, or whole node, in the order in which they get free


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedLane:
    """A lane on its devices; without jobs, it is devices that no lane has taken."""

    kind: int
    jobs: tuple[int, ...]
    placement: tuple[NodeDevices, ...]


class Board:
    """Holds from when on each device is free, and the slots of placed jobs."""

    def __init__(self, problem: PlanProblem, menu: Menu, worths: Worths) -> None:
        self._menu = menu
        self._worths = worths
        self._free: list[Integers] = [
            np.zeros((pool.nodes, pool.devices_per_node), dtype=np.int64) for pool in problem.pools
        ]
        self.slots: dict[int, Slot] = {}
        self._placed: list[PlacedLane] = []

    def place(self, lanes: Sequence[Lane], urgency: Callable[[int], tuple[float, ...]]) -> list[int]:
        """Put each lane, the widest first, on the fullest node with room; return the jobs left over."""
        rest: list[int] = []
        for lane in sorted(
            lanes, key=lambda lane: (-int(self._menu.devices[lane.kind]), lane.kind, lane.jobs)
        ):
            placement = self._room(self._menu.options[lane.kind, lane.jobs[0]])
            if placement is None:
                rest.extend(lane.jobs)
                continue
            self._placed.append(PlacedLane(kind=lane.kind, jobs=lane.jobs, placement=placement))
            start = 0
            for job in sorted(lane.jobs, key=urgency):
                self._put(job, self._menu.options[lane.kind, job], start, placement)
                start = self.slots[job].end
        return rest

    def lanes(self) -> list[PlacedLane]:
        """Return the lanes on nodes, and the devices that no lane uses; call it before `fill`."""
        return [*self._placed, *self._untouched()]

    def _untouched(self) -> Iterator[PlacedLane]:
        """Yield the unused devices as lanes without jobs, as wide as they can be inside a node."""
        for pool, free in enumerate(self._free):
            kinds = np.flatnonzero((self._menu.pools == pool) & (self._menu.devices <= free.shape[1]))
            widest = sorted(kinds.tolist(), key=lambda kind: -int(self._menu.devices[kind]))
            for node, row in enumerate(free):
                devices = np.flatnonzero(row == 0).tolist()
                for kind in widest:
                    while len(devices) >= (count := int(self._menu.devices[kind])):
                        share = NodeDevices(node=node, devices=tuple(devices[:count]))
                        devices = devices[count:]
                        yield PlacedLane(kind=kind, jobs=(), placement=(share,))

    def fill(self, jobs: Iterable[int], horizon: float) -> None:
        """Place each job, in this order, where it ends before the horizon and wastes least."""
        for job in jobs:
            kinds = np.flatnonzero(self._menu.seconds[:, job]).tolist()
            gaps = [self._gap(kind, job, horizon) for kind in kinds]
            best = min(gaps, key=lambda gap: (gap.loss, gap.start, gap.kind))
            option = self._menu.options[best.kind, job]
            self._put(job, option, best.start, self._devices(option, best))

    def _put(self, job: int, option: Option, start: int, placement: tuple[NodeDevices, ...]) -> None:
        self.slots[job] = Slot(option=option, start=start, placement=placement)
        for share in placement:
            self._free[option.pool][share.node, list(share.devices)] = start + option.seconds

    def _room(self, option: Option) -> tuple[NodeDevices, ...] | None:
        untouched = (self._free[option.pool] == 0).sum(axis=1)
        size = self._free[option.pool].shape[1]
        if option.nodes:
            nodes = np.flatnonzero(untouched == size)[: option.nodes]
            if len(nodes) < option.nodes:
                return None
            return tuple(NodeDevices(node=int(node), devices=tuple(range(size))) for node in nodes)
        room = np.where(untouched >= option.devices, untouched, size + 1)
        node = int(room.argmin())
        if room[node] > size:
            return None
        devices = np.flatnonzero(self._free[option.pool][node] == 0)[: option.devices]
        return (NodeDevices(node=node, devices=tuple(devices.tolist())),)

    def _gap(self, kind: int, job: int, horizon: float) -> Gap:
        option = self._menu.options[kind, job]
        starts, wastes = self._gaps_of_nodes(option) if option.nodes else self._gaps_inside(option)
        late = np.maximum(starts + (option.seconds - horizon), 0.0)
        used = float(self._worths.jobs[kind, job])
        losses = used + wastes * self._worths.pools[option.pool] + LATE * late
        node, first = np.unravel_index(int(losses.argmin()), losses.shape)
        return Gap(
            loss=float(losses[node, first]),
            start=int(starts[node, first]),
            kind=kind,
            node=int(node),
            first=int(first),
        )

    def _gaps_inside(self, option: Option) -> tuple[Integers, Integers]:
        """Return start and waste for each run of each node's devices, ordered by when they are free."""
        free = np.sort(self._free[option.pool], axis=1)
        sums = np.cumsum(np.pad(free, ((0, 0), (1, 0))), axis=1)
        starts = free[:, option.devices - 1 :]
        return starts, starts * option.devices - (sums[:, option.devices :] - sums[:, : -option.devices])

    def _gaps_of_nodes(self, option: Option) -> tuple[Integers, Integers]:
        free = self._free[option.pool]
        size = free.shape[1]
        order = np.argsort(free.max(axis=1), kind="stable")
        ends = free.max(axis=1)[order]
        sums = np.cumsum(np.pad(free.sum(axis=1)[order], (1, 0)))
        starts = ends[option.nodes - 1 :]
        wastes = starts * (option.nodes * size) - (sums[option.nodes :] - sums[: -option.nodes])
        return starts[None, :], wastes[None, :]

    def _devices(self, option: Option, gap: Gap) -> tuple[NodeDevices, ...]:
        free = self._free[option.pool]
        if option.nodes:
            order = np.argsort(free.max(axis=1), kind="stable")[gap.first : gap.first + option.nodes]
            every = tuple(range(free.shape[1]))
            return tuple(NodeDevices(node=node, devices=every) for node in sorted(order.tolist()))
        order = np.argsort(free[gap.node], kind="stable")[gap.first : gap.first + option.devices]
        return (NodeDevices(node=gap.node, devices=tuple(sorted(order.tolist()))),)


# The types of this folder: kinds of lanes, lanes with jobs, and what each job takes on each kind.
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Jobs that follow each other on the same devices."""

    kind: int  # index in the menu
    jobs: tuple[int, ...]


class Menu:
    """Holds how long every job takes on every kind of lane, and what it costs there."""

    def __init__(self, problem: PlanProblem) -> None:
        every = (option for options in problem.options for option in options)
        # A kind is a pool and a number of devices; beyond one node, of whole nodes.
        kinds = sorted({(option.pool, option.devices) for option in every})
        places = {kind: place for place, kind in enumerate(kinds)}
        shape = (len(kinds), len(problem.jobs))
        self.seconds: Integers = np.zeros(shape, dtype=np.int64)  # 0: the job cannot run there
        self.dollars: Floats = np.zeros(shape)
        self.options: dict[tuple[int, int], Option] = {}
        for job, options in enumerate(problem.options):
            for option in options:
                kind = places[option.pool, option.devices]
                self.seconds[kind, job] = max(1, option.seconds)
                self.dollars[kind, job] = option.dollars
                self.options[kind, job] = option
        quickest = np.where(self.seconds > 0, self.seconds, np.inf).min(axis=0)
        self.longest_job = float(quickest.max())
        self.devices: Integers = np.array([devices for _, devices in kinds], dtype=np.int64)
        self.pools: Integers = np.array([pool for pool, _ in kinds], dtype=np.int64)
        self.capacity: Floats = np.array(problem.capacity, dtype=np.float64)

    def areas(self, horizon: float) -> Floats:
        """Return the device-seconds of every job on every kind; infinite beyond the horizon."""
        fits = (self.seconds > 0) & (self.seconds <= horizon)
        return np.where(fits, self.seconds * self.devices[:, None], np.inf)

    def length(self, lane: Lane) -> int:
        return int(self.seconds[lane.kind, list(lane.jobs)].sum())
