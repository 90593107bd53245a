"""Search with a process on each of two cores, until the plan is good enough or time is over.

Nothing waits for a search: one that fails, dies or finds nothing is followed by its core's next shift.
"""

from __future__ import annotations

import logging
import os
import selectors
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from slipway.jobs.plan.inputs.incumbent import Incumbent
from slipway.jobs.plan.inputs.search_process import SearchProcess
from slipway.jobs.plan.inputs.shifts import SERIAL, Shift, is_installed, shifts_of
from slipway.jobs.plan.inputs.worker import attempt
from slipway.jobs.plan.inputs.worker_messages import SearchOrder, decode_slots
from slipway.jobs.plan.search.model import LowerBound

log = logging.getLogger(__name__)
MOST_CORES = 2
MOST_FAILURES = 3  # of one core's searches, one after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    seconds: float
    target_gap: float
    seed: int


class Portfolio:
    """Runs the shifts of all cores, and keeps the best of what they say."""

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


class Core:
    """Knows what runs on one core, and what follows."""

    def __init__(self, shifts: Iterator[Shift]) -> None:
        self.shifts = shifts
        self.process: SearchProcess | None = None
        self.until = 0.0
        self.has_answered = False
        self.failures = 0

    @property
    def is_given_up(self) -> bool:
        return self.failures >= MOST_FAILURES


def search_counted(incumbent: Incumbent, iterations: int, limits: SearchLimits) -> str:
    """Search in this process, so many iterations of each kind: the same input finds the same plan."""
    for search in SERIAL:
        if is_installed(search) and not reason_to_stop(incumbent, limits.target_gap):
            order = order_of(incumbent, Shift(search=search, share=1.0, seed=limits.seed))
            attempt(order, _countdown(iterations), lambda answer: take_answer(incumbent, answer))
    return reason_to_stop(incumbent, limits.target_gap) or "iterations"


def _countdown(iterations: int) -> Callable[[], bool]:
    left = iter(range(iterations))
    return lambda: next(left, None) is not None


def take_answer(incumbent: Incumbent, answer: Mapping[str, object]) -> bool:
    """Keep what a search says if it is better; return True if it was."""
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
    return min(MOST_CORES, len(os.sched_getaffinity(0)))
