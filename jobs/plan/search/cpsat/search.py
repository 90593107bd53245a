"""Search few jobs exactly: find better plans, and finally prove that none is better."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortools.sat.python import cp_model

from slipway.jobs.plan.search.cpsat.model import ExactModel, Grain, placed
from slipway.jobs.plan.search.list_schedule import Slot, score_of
from slipway.jobs.plan.search.model import LowerBound, Objective
from slipway.jobs.plan.search.options import PlanProblem

COARSE, FINE = 2_000, 20_000  # units of time in a plan: CP-SAT is slow with many
FIRST_EFFORT = 2.0  # CP-SAT's deterministic seconds for each grain; four times as much in the next round
EXACT = "exact search"


class ExactSearch:
    """Reports each better plan and each higher bound; an infinite bound says that no plan keeps the limits.

    It keeps the best of both, and which grains have not been searched to the end.
    """

    def __init__(
        self,
        problem: PlanProblem,
        *,
        found: Callable[[Sequence[Slot]], None],
        proven: Callable[[LowerBound], None] = lambda _: None,
        start: Sequence[Slot] | None = None,
        bound: float = 0.0,
    ) -> None:
        self._problem, self._bound, self._found, self._proven = problem, bound, found, proven
        self._best = start if start is not None and not any(score_of(problem, start)[:2]) else None
        self._horizon = _horizon(problem, self._best)
        units = dict.fromkeys(max(1, self._horizon // count) for count in (COARSE, FINE))
        # Whole seconds are not rounded: one search finds plans and proves them.
        self.open_grains = [(unit, up) for unit in units for up in (True, False) if unit > 1 or not up]

    def improve(self, *, seed: int, keep_going: Callable[[], bool]) -> None:
        """Search until all is proven.

        It checks `keep_going` only when it finds something new; to stop it earlier, end its process.
        """
        effort = FIRST_EFFORT
        while self.open_grains:
            for grain in self.open_grains:
                if not keep_going():
                    return
                self._search(grain, seed, effort, keep_going)
            effort *= 4

    def _search(
        self, grain: tuple[int, bool], seed: int, effort: float, keep_going: Callable[[], bool]
    ) -> None:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 2  # one for plans, one for proofs
        solver.parameters.random_seed = seed
        solver.parameters.max_deterministic_time = effort
        solver.parameters.catch_sigint_signal = False
        unit, round_up = grain
        horizon = self._horizon + (unit * len(self._problem.jobs) if round_up else 0)
        exact = ExactModel(self._problem, Grain(seconds=unit, round_up=round_up, horizon=horizon))
        exact.minimise()
        exact.demand(self._bound)
        if self._best is not None:
            exact.hint(self._best)
        if not round_up:
            solver.best_bound_callback = lambda objective: self._raise(exact.worth(objective))
        status = solver.solve(
            exact.model, _Told(exact, keep_going, self._keep if round_up or unit == 1 else None)
        )
        if status == cp_model.OPTIMAL and not round_up:
            self._raise(exact.worth(solver.best_objective_bound))
        if status == cp_model.INFEASIBLE and not round_up and self._best is None:
            self._raise(float("inf"))
        if status in (cp_model.OPTIMAL, cp_model.INFEASIBLE):
            self.open_grains = [each for each in self.open_grains if each != grain]

    def _keep(self, slots: Sequence[Slot]) -> None:
        self._best = slots
        if self._problem.goal.objective is Objective.MAKESPAN:
            self._horizon = min(self._horizon, max(slot.end for slot in slots))
        self._found(slots)

    def _raise(self, bound: float) -> None:
        if bound > self._bound:
            self._bound = bound
            self._proven(LowerBound(value=bound, name=EXACT))


def _horizon(problem: PlanProblem, best: Sequence[Slot] | None) -> int:
    """Return a time by which some best plan has ended."""
    goal = problem.goal
    one_by_one = sum(max(option.seconds for option in options) for options in problem.options)
    if best is not None and goal.objective is Objective.MAKESPAN:
        return max(slot.end for slot in best)
    return one_by_one if goal.deadline is None else min(goal.deadline, one_by_one)


class _Told(cp_model.CpSolverSolutionCallback):
    """Passes on each better solution as a plan."""

    def __init__(
        self,
        exact: ExactModel,
        keep_going: Callable[[], bool],
        found: Callable[[Sequence[Slot]], None] | None,
    ) -> None:
        super().__init__()
        self._exact = exact
        self._keep_going = keep_going
        self._found = found

    def on_solution_callback(self) -> None:
        problem = self._exact.problem
        if self._found is not None:
            by_cost = problem.goal.objective is Objective.COST
            chosen = self._exact.chosen(self.value)
            self._found(placed(problem, chosen, max if by_cost else lambda _, could: could))
        if not self._keep_going():
            self.stop_search()
