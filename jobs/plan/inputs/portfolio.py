"""Search with one process on each of two cores, until the plan is good enough or the time limit is reached.

A search that fails, dies or finds nothing holds up nobody: its core begins the next shift.
"""

from __future__ import annotations

import json
import logging
import math
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count

from slipway.containers.runtime import linux
from slipway.jobs.plan.inputs.worker import SearchOrder, attempt, decode_slots, encode_order
from slipway.jobs.plan.search.check import InvalidPlan, check
from slipway.jobs.plan.search.list_schedule import Slot, as_plan, urgent_first
from slipway.jobs.plan.search.model import ROUNDING, LowerBound, Plan
from slipway.jobs.plan.search.options import PlanProblem

# The best plan and the highest bound so far, each checked before it is kept.


class Incumbent:
    """Keeps the best plan, by what it misses of the goal, then by value, then by when urgent jobs end."""

    def __init__(self, problem: PlanProblem, slots: Sequence[Slot], bound: LowerBound) -> None:
        self.problem = problem
        self.slots = slots
        self.bound = bound
        self.is_impossible = False
        self._rank = _rank(as_plan(problem, slots))

    def offer(self, slots: Sequence[Slot]) -> bool:
        """Keep a plan if it is better and valid; log a warning if it is invalid."""
        slots = urgent_first(self.problem, slots)
        plan = as_plan(self.problem, slots)
        if (found := _rank(plan)) >= self._rank:
            return False
        if not any(plan.missed):
            try:
                check(plan)
            except InvalidPlan as error:
                log.warning("a search's plan was thrown away: %s", error)
                return False
        self.slots, self._rank = slots, found
        return True

    def raise_to(self, bound: LowerBound) -> bool:
        if math.isinf(bound.value):
            self.is_impossible = not self.is_valid
            return False
        if bound.value <= self.bound.value * (1 + ROUNDING):
            return False
        if self.is_valid and bound.value > self.plan().value * (1 + 1e-6):
            log.warning("a bound above a plan was thrown away: %s", bound)
            return False
        self.bound = bound
        return True

    @property
    def is_valid(self) -> bool:
        """Return True if the plan keeps every deadline and the budget."""
        return not any(self._rank[:2])

    def plan(self, stopped: str = "") -> Plan:
        return as_plan(self.problem, self.slots, self.bound, stopped)


def _rank(plan: Plan) -> tuple[float, ...]:
    """Return the key that compares plans: what they miss, their value, and how late urgent jobs end."""
    urgent = sum(job.priority * each.end for job, each in zip(plan.jobs, plan.assignments, strict=True))
    return *plan.score, urgent


log = logging.getLogger(__name__)
MOST_CORES = 2
MOST_FAILURES = 3  # in a row, of the searches of one core


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    seconds: float
    target_gap: float
    seed: int


class Portfolio:
    """Runs the shifts of all cores, and keeps the best plan and bound."""

    def __init__(self, incumbent: Incumbent, limits: SearchLimits, told: Callable[[], None]) -> None:
        self._incumbent = incumbent
        self._limits = limits
        self._told = told
        self._ends = time.monotonic() + limits.seconds
        self._selector = selectors.DefaultSelector()
        self._cores = [Core(shifts) for shifts in shifts_of(incumbent.problem, cores_to_use(), limits.seed)]

    def run(self) -> str:
        """Search until it is time to stop, and return why."""
        try:
            while not (stopped := self._reason()):
                for core in self._cores:
                    self._relieve(core)
                self._listen()
            return stopped
        except KeyboardInterrupt:
            return "interrupted"
        finally:
            for core in self._cores:
                self._stop(core)
            self._selector.close()

    def _reason(self) -> str:
        if stopped := reason_to_stop(self._incumbent, self._limits.target_gap):
            return stopped
        if time.monotonic() >= self._ends:
            return "time limit"
        return "nothing left to search" if all(core.is_given_up for core in self._cores) else ""

    def _relieve(self, core: Core) -> None:
        """Begin the core's next shift if the last one is over."""
        if core.process is not None and time.monotonic() >= core.until:
            self._stop(core)
        if core.process is None and not core.is_given_up:
            shift = next(core.shifts)
            core.until = time.monotonic() + shift.share * self._limits.seconds
            core.has_answered = False
            core.process = SearchProcess(order_of(self._incumbent, shift))
            self._selector.register(core.process.answers, selectors.EVENT_READ, core)

    def _listen(self) -> None:
        until = min([self._ends, *(core.until for core in self._cores if core.process)])
        for key, _ in self._selector.select(max(0.0, until - time.monotonic())):
            core: Core = key.data
            assert core.process is not None
            answers = core.process.read()
            for answer in answers or ():
                self._hear(core, answer)
            if answers is None:
                core.failures = 0 if core.has_answered else core.failures + 1
                self._stop(core)

    def _hear(self, core: Core, answer: Mapping[str, object]) -> None:
        core.has_answered = "failed" not in answer
        if take_answer(self._incumbent, answer):
            self._told()

    def _stop(self, core: Core) -> None:
        if core.process is not None:
            self._selector.unregister(core.process.answers)
            core.process.stop()
            core.process = None


@dataclass(slots=True)
class Core:
    """Holds the search that runs on one core, and the shifts that follow."""

    shifts: Iterator[Shift]
    process: SearchProcess | None = None
    until: float = 0.0
    has_answered: bool = False
    failures: int = 0

    @property
    def is_given_up(self) -> bool:
        return self.failures >= MOST_FAILURES


def search_counted(incumbent: Incumbent, iterations: int, limits: SearchLimits) -> str:
    """Run this many iterations of each search in this process: the same input gives the same plan."""
    for search in SERIAL:
        if can_search(search, incumbent.problem) and not reason_to_stop(incumbent, limits.target_gap):
            order = order_of(incumbent, Shift(search=search, share=1.0, seed=limits.seed))
            attempt(order, _countdown(iterations), lambda answer: take_answer(incumbent, answer))
    return reason_to_stop(incumbent, limits.target_gap) or "iterations"


def _countdown(iterations: int) -> Callable[[], bool]:
    left = iter(range(iterations))
    return lambda: next(left, None) is not None


def take_answer(incumbent: Incumbent, answer: Mapping[str, object]) -> bool:
    """Keep a search's plan or bound if it is better; return True if it was."""
    if "slots" in answer:
        return incumbent.offer(decode_slots(incumbent.problem, answer["slots"]))  # type: ignore[arg-type]
    if "bound" in answer:
        return incumbent.raise_to(LowerBound(**answer["bound"]))  # type: ignore[arg-type]
    log.warning("a search of plans failed: %s", answer["failed"])
    return False


def reason_to_stop(incumbent: Incumbent, target_gap: float) -> str:
    if incumbent.is_impossible:
        return "proven"
    if not incumbent.is_valid:
        return ""
    gap = incumbent.plan().gap
    if gap <= 1e-6:
        return "proven"
    return "target" if gap <= target_gap else ""


def order_of(incumbent: Incumbent, shift: Shift) -> SearchOrder:
    return SearchOrder(
        search=shift.search,
        problem=incumbent.problem,
        seed=shift.seed,
        start=incumbent.slots,
        bound=incumbent.bound,
    )


def cores_to_use() -> int:
    return min(MOST_CORES, linux.count_processors())


# Run a search in its own process: send it an order, and read its answers line by line.
WORKER = (sys.executable, "-P", "-m", "slipway.jobs.plan.inputs.worker")
# Each process has one core; threads of a library would take time from the other process.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


class SearchProcess:
    """Starts a search; wait on `answers`, its output."""

    def __init__(self, order: SearchOrder) -> None:
        # In its own session it gets no Ctrl-C: only the parent does, and then returns the best plan.
        self._process = subprocess.Popen(
            WORKER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | ONE_THREAD,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.answers = self._process.stdout
        self._rest = b""
        # A large order fills the pipe until the process has started, so a thread writes it.
        self._speaker = threading.Thread(target=self._say, args=(encode_order(order),), daemon=True)
        self._speaker.start()

    def read(self) -> list[Mapping[str, object]] | None:
        """Return the answers that have arrived, or None once no more will come."""
        arrived = os.read(self.answers.fileno(), 1 << 20)
        if not arrived:
            return None
        *lines, self._rest = (self._rest + arrived).split(b"\n")
        return [json.loads(line) for line in lines]

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """End the process; nothing is lost by that."""
        self._process.kill()
        self._process.wait()
        self._speaker.join()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self.answers.close()

    def _say(self, order: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):
            self._process.stdin.write(order.encode() + b"\n")
            self._process.stdin.flush()


# The shifts of each core, by the size of the problem: those that were measured to find the best plans.
FEW_JOBS = 30  # an exact search can still solve problems of this size
# The searches of search_counted: exact search has no iterations to count.
SERIAL = ("bound", "lanes", "annealing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """One search and its share of the whole time; it may end earlier."""

    search: str
    share: float
    seed: int


def shifts_of(problem: PlanProblem, cores: int, seed: int) -> list[Iterator[Shift]]:
    """Return an endless sequence of shifts for each core."""
    table = _table(problem)
    if cores == 1:
        table = ([(search, share / 2) for rows in table for search, share in rows],)
    return [_present(rows, seed + core) for core, rows in enumerate(table)]


def _table(problem: PlanProblem) -> Sequence[Sequence[tuple[str, float]]]:
    anneals = can_search("annealing", problem)
    if len(problem.jobs) <= FEW_JOBS:
        return (
            [("exact", 1.0)],
            [("bound", 0.3), *([("annealing", 0.4), ("lanes", 0.3)] if anneals else [("lanes", 0.7)])],
        )
    if anneals:
        return (
            [("lanes", 0.5), ("annealing", 0.5)],
            [("bound", 0.4), ("annealing", 0.6)],
        )
    return (
        [("lanes", 1.0)],
        [("bound", 0.5), ("lanes", 0.5)],
    )


def _present(rows: Sequence[tuple[str, float]], seed: int) -> Iterator[Shift]:
    """Yield the shifts whose search is installed, then repeat plain searches with other seeds."""
    rows = [(search, share) for search, share in rows if is_installed(search)]
    for search, share in rows:
        yield Shift(search=search, share=share, seed=seed)
    again = [search for search, _ in rows if search != "bound"] or ["lanes"]
    for turn in count(1):
        for search in again:
            yield Shift(search=search, share=0.25, seed=seed + 100 * turn)


def can_search(search: str, problem: PlanProblem) -> bool:
    return is_installed(search) and (search != "annealing" or problem.only_devices_count)


def is_installed(search: str) -> bool:
    """Return True if the package that a search needs beyond the base install is there."""
    return search != "exact" or find_spec("ortools") is not None
