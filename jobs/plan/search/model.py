"""Define the planner's types: a job's modes, the pools of nodes, the goal, and the plan.

Times are whole seconds from the plan's start; nodes and devices are counted from 0 inside their pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slipway.jobs.words.job import Job
from slipway.jobs.words.run import SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One way to run a job to its end: on some number of devices of one instance type, in some time."""

    technique: str
    type: str
    devices: int  # beyond one node: whole nodes
    seconds: int
    source: str = "given"  # measured, fitted, estimated or given
    error: float = 0.0  # half the width of the estimate's interval, as a share of its seconds
    settings: tuple[tuple[str, str], ...] = ()  # the technique's settings, besides the job's own

    @property
    def way(self) -> tuple[str, str, int]:
        """Return the mode without its estimated time."""
        return self.technique, self.type, self.devices


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanJob:
    """A job without a target yet, and the modes in which it can run."""

    name: str
    modes: tuple[Mode, ...]
    job: Job | None = None  # the job to submit; None if only modes were given
    steps: int | None = None
    depends_on: tuple[str, ...] = ()  # names of jobs that have to end first
    deadline: int | None = None
    priority: int = 0  # among equal plans, jobs of higher priority end first


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Nodes of one instance type, near enough to each other for a job to span them."""

    type: str
    nodes: int
    devices_per_node: int  # that a plan may assign: 1 if a job takes only whole nodes
    price_per_hour: float  # of a node, in dollars
    is_spot: bool = False
    interruptions_per_hour: float = 0.0  # of a node
    rework_seconds: int = 0  # lost by an interruption: the restart and half a checkpoint interval
    cluster: str = ""  # where its jobs are submitted; empty: nowhere yet
    spans_nodes: bool = True  # the type has EFA: a job may take several whole nodes

    @property
    def devices(self) -> int:
        return self.nodes * self.devices_per_node


SWITCH_SECONDS = 300  # to save and stop a running job, and start it elsewhere
ROUNDING = 1e-9  # as a share: dollars are summed in another order elsewhere


class Objective(StrEnum):
    MAKESPAN = "makespan"
    COST = "cost"


class Billing(StrEnum):
    DEVICE = "device"  # a job pays its share of a node
    NODE = "node"  # a node is paid from its first job's start to its last job's end


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Asks for the least makespan, within a budget if there is one, or the least cost within a deadline."""

    objective: Objective = Objective.MAKESPAN
    deadline: int | None = None
    budget: float | None = None
    billing: Billing = Billing.DEVICE


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDevices:
    node: int
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    job: str
    mode: Mode
    pool: int  # index in the list of pools
    start: int
    seconds: int  # the mode's, plus the expected rework in a spot pool
    placement: tuple[NodeDevices, ...]

    @property
    def end(self) -> int:
        return self.start + self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """A value of the goal's objective that no plan can be below; the name says why."""

    value: float
    name: str


NO_BOUND = LowerBound(value=0, name="none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    jobs: tuple[PlanJob, ...]
    pools: tuple[Pool, ...]
    goal: Goal
    assignments: tuple[Assignment, ...]  # in the order of the jobs
    bound: LowerBound = NO_BOUND
    stopped: str = ""  # why the search ended: target, time limit, proven, interrupted

    @property
    def makespan(self) -> int:
        return max((each.end for each in self.assignments), default=0)

    @property
    def dollars(self) -> float:
        if self.goal.billing is not Billing.NODE:
            return sum(
                dollars_of(each.mode, self.pools[each.pool], each.seconds) for each in self.assignments
            )
        used: dict[tuple[int, int], tuple[int, int]] = {}
        for each in self.assignments:
            for share in each.placement:
                first, last = used.get((each.pool, share.node), (each.start, each.end))
                used[each.pool, share.node] = (min(first, each.start), max(last, each.end))
        return sum(
            self.pools[pool].price_per_hour * (last - first) / SECONDS_PER_HOUR
            for (pool, _), (first, last) in used.items()
        )

    @property
    def value(self) -> float:
        """Return the value of the goal's objective: the makespan or dollars."""
        return self.dollars if self.goal.objective is Objective.COST else float(self.makespan)

    @property
    def missed(self) -> tuple[float, float]:
        """Return by how many seconds jobs end too late, in all, and the dollars above the budget."""
        late = 0
        for job, each in zip(self.jobs, self.assignments, strict=True):
            due = [last for last in (job.deadline, self.goal.deadline) if last is not None]
            late += max(0, each.end - min(due, default=each.end))
        budget = self.goal.budget
        return late, 0.0 if budget is None else max(0.0, self.dollars - budget * (1 + ROUNDING))

    @property
    def score(self) -> tuple[float, float, float]:
        """Return the key that compares plans, the least is best: what is missed, and then the value."""
        return *self.missed, self.value

    @property
    def gap(self) -> float:
        """Return how far the value is above the bound, as a share of the bound."""
        if self.bound.value <= 0:
            return 0.0 if self.value <= 0 else float("inf")
        return max(0.0, self.value / self.bound.value - 1)


def dollars_of(mode: Mode, pool: Pool, seconds: int) -> float:
    """Return the price of a job's devices for this many seconds."""
    return pool.price_per_hour * mode.devices / pool.devices_per_node * seconds / SECONDS_PER_HOUR
