"""Model a problem for CP-SAT: an optional interval for each option of a job on each node that it may use.

Time is counted in units of several seconds, since CP-SAT is slow with long times. With durations rounded up,
its solutions are valid plans; rounded down, its proofs of impossibility are valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from slipway.jobs.plan.search.list_schedule import Slot
from slipway.jobs.plan.search.model import Billing, NodeDevices, Objective, Pool
from slipway.jobs.plan.search.options import Option, PlanProblem

DOLLAR = 1_000_000  # prices are whole numbers of millionths


@dataclass(frozen=True, slots=True, kw_only=True)
class Grain:
    """Converts seconds to units, and limits how long a plan may last."""

    seconds: int  # of a unit
    round_up: bool
    horizon: int  # in seconds

    def duration(self, seconds: int) -> int:
        return -(-seconds // self.seconds) if self.round_up else seconds // self.seconds

    def price(self, dollars: float) -> int:
        return math.ceil(dollars * DOLLAR) if self.round_up else math.floor(dollars * DOLLAR)

    @property
    def last(self) -> int:
        return self.horizon // self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOption:
    """Holds one option of a job: if it is taken, and which of its pool's nodes it uses."""

    place: int  # index among the job's options
    option: Option
    taken: cp_model.IntVar
    nodes: Mapping[int, cp_model.IntVar]


class ExactModel:
    """Models jobs with a start and one option each, on nodes with a limited number of devices."""

    def __init__(self, problem: PlanProblem, grain: Grain) -> None:
        self.problem = problem
        self.grain = grain
        self.model = cp_model.CpModel()
        self._least_areas = [min(option.area for option in options) for options in problem.options]
        self._spare = sum(pool.devices for pool in problem.pools) * grain.horizon - sum(self._least_areas)
        jobs = range(len(problem.jobs))
        self.starts = [self.model.new_int_var(0, grain.last, f"start{job}") for job in jobs]
        self.ends = [self.model.new_int_var(0, self._deadline(job), f"end{job}") for job in jobs]
        self.makespan = self.model.new_int_var(0, grain.last, "makespan")
        self.choices = [list(self._choices(job)) for job in jobs]
        self._order_jobs()
        for place, pool in enumerate(problem.pools):
            self._fill(place, pool)
        self.cost = self._cost()

    def minimise(self) -> None:
        by_cost = self.problem.goal.objective is Objective.COST
        self.model.minimize(self.cost if by_cost else self.makespan)

    def demand(self, bound: float) -> None:
        """Exclude solutions better than a known bound: they are impossible."""
        if self.problem.goal.objective is Objective.MAKESPAN and math.isfinite(bound):
            self.model.add(self.makespan >= math.floor(bound) // self.grain.seconds)

    def hint(self, slots: Sequence[Slot]) -> None:
        """Begin the search from a plan."""
        for start, choices, slot in zip(self.starts, self.choices, slots, strict=True):
            self.model.add_hint(start, slot.start // self.grain.seconds)
            used = {share.node for share in slot.placement}
            for choice in choices:
                is_taken = choice.option == slot.option
                self.model.add_hint(choice.taken, is_taken)
                for node, literal in choice.nodes.items():
                    if literal is not choice.taken:
                        self.model.add_hint(literal, is_taken and node in used)

    def chosen(self, value: Callable[[cp_model.IntVar], int]) -> list[Chosen]:
        """Read the choices of a solution."""
        found = []
        for start, end, choices in zip(self.starts, self.ends, self.choices, strict=True):
            (choice,) = (choice for choice in choices if value(choice.taken))
            found.append(
                Chosen(
                    option=choice.option,
                    start=value(start) * self.grain.seconds,
                    end=value(end) * self.grain.seconds,
                    nodes=tuple(node for node, used in choice.nodes.items() if value(used)),
                )
            )
        return found

    def worth(self, objective: float) -> float:
        """Convert an objective of this model to the goal's seconds or dollars."""
        by_cost = self.problem.goal.objective is Objective.COST
        return math.ceil(objective - 1e-6) * (1 / DOLLAR if by_cost else self.grain.seconds)

    def _deadline(self, job: int) -> int:
        given = (self.problem.jobs[job].deadline, self.problem.goal.deadline)
        return min([self.grain.last, *(each // self.grain.seconds for each in given if each is not None)])

    def _choices(self, job: int) -> Iterator[TakenOption]:
        for place, option in enumerate(self.problem.options[job]):
            if option.seconds > self.grain.horizon or option.area - self._least_areas[job] > self._spare:
                continue
            taken = self.model.new_bool_var(f"job{job} option{place}")
            nodes = self.problem.pools[option.pool].nodes
            names = {node: f"job{job} option{place} node{node}" for node in range(nodes)}
            if nodes == 1:
                yield TakenOption(place=place, option=option, taken=taken, nodes={0: taken})
                continue
            literals = {node: self.model.new_bool_var(name) for node, name in names.items()}
            self.model.add(sum(literals.values()) == max(1, option.nodes) * taken)
            yield TakenOption(place=place, option=option, taken=taken, nodes=literals)

    def _order_jobs(self) -> None:
        for job, choices in enumerate(self.choices):
            self.model.add_exactly_one(choice.taken for choice in choices)
            length = sum(self.grain.duration(choice.option.seconds) * choice.taken for choice in choices)
            self.model.add(self.ends[job] == self.starts[job] + length)
            self.model.add(self.makespan >= self.ends[job])
            for before in self.problem.after[job]:
                self.model.add(self.starts[job] >= self.ends[before])

    def _fill(self, place: int, pool: Pool) -> None:
        """Limit the devices in use at each moment, per node and in the whole pool."""
        chosen = [
            (job, choice)
            for job, choices in enumerate(self.choices)
            for choice in choices
            if choice.option.pool == place
        ]
        for node in range(pool.nodes):
            intervals = [self._interval(job, choice.option, choice.nodes[node]) for job, choice in chosen]
            needs = [min(choice.option.devices, pool.devices_per_node) for _, choice in chosen]
            self.model.add_cumulative(intervals, needs, pool.devices_per_node)
        if pool.nodes > 1:
            intervals = [self._interval(job, choice.option, choice.taken) for job, choice in chosen]
            self.model.add_cumulative(
                intervals, [choice.option.devices for _, choice in chosen], pool.devices
            )
            self._break_symmetry(pool, chosen)
        area = sum(
            choice.option.devices * self.grain.duration(choice.option.seconds) * choice.taken
            for _, choice in chosen
        )
        self.model.add(area <= pool.devices * self.makespan)

    def _interval(self, job: int, option: Option, taken: cp_model.IntVar) -> cp_model.IntervalVar:
        length = self.grain.duration(option.seconds)
        return self.model.new_optional_fixed_size_interval_var(self.starts[job], length, taken, "")

    def _break_symmetry(self, pool: Pool, chosen: Sequence[tuple[int, TakenOption]]) -> None:
        """Let a job use a node only after an earlier job uses the one before it: all nodes are alike."""
        for node in range(1, pool.nodes):
            earlier: list[cp_model.IntVar] = []
            for job in range(len(self.choices)):
                own = [choice for at, choice in chosen if at == job]
                if any(choice.option.nodes for choice in own):
                    earlier.extend(choice.nodes[node - 1] for choice in own)
                for choice in own:
                    self.model.add_bool_or([*earlier, choice.nodes[node].negated()])
                earlier.extend(choice.nodes[node - 1] for choice in own if not choice.option.nodes)

    def _cost(self) -> cp_model.LinearExprT:
        goal = self.problem.goal
        if goal.billing is Billing.NODE:
            cost = sum(self._bills())
        else:
            cost = sum(
                self.grain.price(choice.option.dollars) * choice.taken
                for choices in self.choices
                for choice in choices
            )
        if goal.budget is not None:
            self.model.add(cost <= math.floor(goal.budget * (1 + 1e-9) * DOLLAR))
        return cost

    def _bills(self) -> Iterator[cp_model.LinearExprT]:
        """Yield the price of each node from its first job's start to its last job's end."""
        for place, pool in enumerate(self.problem.pools):
            price = self.grain.price(pool.price_per_hour / 3600 * self.grain.seconds)
            for node in range(pool.nodes):
                first = self.model.new_int_var(0, self.grain.last, "")
                last = self.model.new_int_var(0, self.grain.last, "")
                self.model.add(last >= first)
                for job, choices in enumerate(self.choices):
                    for choice in choices:
                        if choice.option.pool == place:
                            self.model.add(first <= self.starts[job]).only_enforce_if(choice.nodes[node])
                            self.model.add(last >= self.ends[job]).only_enforce_if(choice.nodes[node])
                yield price * (last - first)


# Give each job of a solution its devices on the chosen nodes.


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Holds where and when a solution runs a job, in seconds that were rounded up."""

    option: Option
    start: int
    end: int
    nodes: tuple[int, ...]


def placed(problem: PlanProblem, chosen: Sequence[Chosen], start_of: Callable[[int, int], int]) -> list[Slot]:
    """Place the jobs by their start; each starts at `start_of(start in the solution, earliest start)`."""
    rounded = [[[0] * pool.devices_per_node for _ in range(pool.nodes)] for pool in problem.pools]
    free = [[[0] * pool.devices_per_node for _ in range(pool.nodes)] for pool in problem.pools]
    slots: dict[int, Slot] = {}
    for job in sorted(range(len(chosen)), key=lambda job: (chosen[job].start, chosen[job].end)):
        choice, pool = chosen[job], chosen[job].option.pool
        share = choice.option.devices // len(choice.nodes)
        placement = tuple(
            NodeDevices(node=node, devices=_free_by(rounded[pool][node], choice.start, share))
            for node in sorted(choice.nodes)
        )
        taken = [(each.node, device) for each in placement for device in each.devices]
        ready = max((slots[before].end for before in problem.after[job]), default=0)
        start = start_of(choice.start, max([ready, *(free[pool][node][device] for node, device in taken)]))
        slots[job] = Slot(option=choice.option, start=start, placement=placement)
        for node, device in taken:
            rounded[pool][node][device] = choice.end
            free[pool][node][device] = slots[job].end
    return [slots[job] for job in range(len(chosen))]


def _free_by(free: Sequence[int], moment: int, count: int) -> tuple[int, ...]:
    """Choose `count` of the devices that are free by then, those that were busy last."""
    fitting = sorted((-since, device) for device, since in enumerate(free) if since <= moment)
    assert len(fitting) >= count, "a solution never uses more devices than a node has"
    return tuple(sorted(device for _, device in fitting[:count]))
