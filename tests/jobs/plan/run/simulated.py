"""Simulates a cluster, which runs jobs in its own time, and goes on when the runner is killed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slipway.jobs.plan.run.decisions import Report, Sight
from slipway.jobs.plan.run.journal import HappenedEvent, Ledger, PlanJournal
from slipway.jobs.plan.run.running import PlanRun, PlanWorld, SentRun
from slipway.jobs.plan.search.list_schedule import as_plan
from slipway.jobs.plan.search.model import Assignment, Plan, PlanJob
from slipway.jobs.words.errors import InvalidConfig, Problem, SlipwayError
from tests.jobs.plan.search.small import TWO_NODES, best_of_all, problem_of

TICK = 10


class Killed(Exception):
    """Stands for kill -9: nothing of the runner runs after it."""


@dataclass
class Attempted:
    job: PlanJob
    assignment: Assignment
    began: float
    left: float
    ended: float | None = None
    outcome: str | None = None


@dataclass
class SimulatedCluster:
    """A job takes its mode's seconds times its factor; a stopped job saves its progress."""

    factors: Mapping[str, float] = field(default_factory=dict)
    time: float = 1000.0
    runs: dict[str, Attempted] = field(default_factory=dict)
    done: dict[str, float] = field(default_factory=dict)
    lost: set[tuple[int, int]] = field(default_factory=set)
    at: dict[float, Callable[[], None]] = field(default_factory=dict)
    reports: bool = True
    busy_until: float = 0.0
    mistake: bool = False

    def send(self, job: PlanJob, assignment: Assignment, attempt: int) -> str:
        if self.mistake:
            raise InvalidConfig([Problem(where="--set", message="no such setting")])
        if self.time < self.busy_until:
            raise SlipwayError("somebody else's job runs")
        run = f"{job.name}-{attempt}"
        if run not in self.runs:
            self._refuse_shared(assignment)
            left = 1 - self.done.get(job.name, 0.0)
            self.runs[run] = Attempted(job=job, assignment=assignment, began=self.time, left=left)
        return run

    def look(self, runs: Mapping[str, SentRun]) -> Mapping[str, Sight]:
        return {name: self._sight(self.runs[run.id]) for name, run in runs.items()}

    def stop(self, run: SentRun, why: str) -> None:
        if self.runs[run.id].outcome is None:
            self._end(self.runs[run.id], "failed")

    def end(self, name: str, outcome: str) -> None:
        """Withdraw a job, or lose its machine, whose place another takes at once."""
        (run,) = [each for each in self.runs.values() if each.job.name == name and each.outcome is None]
        self._end(run, outcome)

    def lose(self, node: int) -> None:
        self.lost.add((0, node))
        for run in self.runs.values():
            if run.outcome is None and any(share.node == node for share in run.assignment.placement):
                self._end(run, "lost")

    def find_lost(self) -> frozenset[tuple[int, int]]:
        return frozenset(self.lost)

    def has_everywhere(self, job: PlanJob) -> bool:
        return True

    def pause(self) -> None:
        self.time += TICK
        for moment in [each for each in self.at if each <= self.time]:
            self.at.pop(moment)()
        for run in self.runs.values():
            if run.outcome is None and self._share(run) >= 1:
                run.ended = run.began + self._seconds(run)
                run.outcome, self.done[run.job.name] = "succeeded", 1.0

    def _seconds(self, run: Attempted) -> float:
        first = next(mode for mode in run.job.modes if mode.devices == run.assignment.mode.devices)
        return first.seconds * run.left * self.factors.get(run.job.name, 1.0)

    def _share(self, run: Attempted) -> float:
        return (self.time - run.began) / max(self._seconds(run), 1e-9)

    def _end(self, run: Attempted, outcome: str) -> None:
        run.ended, run.outcome = self.time, outcome
        self.done[run.job.name] = 1 - run.left * (1 - min(1.0, self._share(run)))

    def _sight(self, run: Attempted) -> Sight:
        share = 1.0 if run.outcome == "succeeded" else min(1.0, self._share(run))
        saved = 1 - run.left * (1 - share) if run.outcome is None else self.done[run.job.name]
        first = Report(at=run.began, done=1 - run.left)
        last = Report(at=run.ended or self.time, done=saved)
        return Sight(
            outcome=run.outcome,
            began=run.began,
            ended=run.ended,
            first=first if self.reports else None,
            last=last if self.reports else None,
        )

    def _refuse_shared(self, assignment: Assignment) -> None:
        for other in self.runs.values():
            for share in other.assignment.placement if other.outcome is None else ():
                for mine in assignment.placement:
                    shared = share.node == mine.node and set(share.devices) & set(mine.devices)
                    assert not shared, f"two jobs on a device: {assignment.job} and {other.job.name}"


def plan_of(*jobs: PlanJob) -> Plan:
    problem = problem_of(*jobs, pool=TWO_NODES)
    return as_plan(problem, best_of_all(problem))


@dataclass
class Orchestrated:
    """Runs a plan again and again, as a user would."""

    plan: Plan
    cluster: SimulatedCluster
    path: Path
    said: list[str] = field(default_factory=list)

    def run(self, writes: int | None = None) -> Ledger:
        """Run the plan; with `writes`, kill the runner right after this many lines of the journal."""
        journal = KilledJournal(self.path, writes)
        around = PlanWorld(
            executor=self.cluster,
            journal=journal,
            now=lambda: self.cluster.time,
            pause=self.cluster.pause,
            solve=best_of_all,
            switch_seconds=20,
            began=1000.0,
            say=self.said.append,
        )
        with journal.opened() as events:
            return PlanRun(self.plan, around, events).finish()


class KilledJournal(PlanJournal):
    def __init__(self, path: Path, writes: int | None) -> None:
        super().__init__(path)
        self._writes = writes

    def write(self, event: HappenedEvent) -> None:
        super().write(event)
        if self._writes is not None:
            self._writes -= 1
            if self._writes == 0:
                raise Killed
