"""Run a plan to its end: look, note what ended, plan again if there is news, and start the next jobs.

Every step is written to the journal before it is done. A run that was killed at any point can start again
from the journal, and finds the same attempts under the same names: nothing runs twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from slipway.jobs.plan.run import decisions
from slipway.jobs.plan.run.decisions import Sight
from slipway.jobs.plan.run.journal import (
    AttemptEnded,
    AttemptIntended,
    AttemptStopping,
    AttemptSubmitted,
    HappenedEvent,
    JobSkipped,
    JobStage,
    JobStanding,
    Ledger,
    PlanJournal,
    PlanReplaced,
    after,
    new_ledger,
)
from slipway.jobs.plan.search.list_schedule import as_assignment
from slipway.jobs.plan.search.model import Assignment, Plan, PlanJob
from slipway.jobs.plan.search.replan import Situation, Solve, replan
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import Say

MISTAKE = 2  # the exit code of errors that a second try cannot mend
_PERCENT = 100


class SentRun(NamedTuple):
    """Identifies a run: each Slurm cluster counts its own jobs from 1."""

    pool: int
    id: str
    at: float  # when it was sent, in Unix seconds


class Executor(Protocol):
    """Submits, watches and stops jobs. After a crash each call may come a second time."""

    def send(self, job: PlanJob, assignment: Assignment, attempt: int) -> str:
        """Submit an attempt and return its id; submitted again, the same attempt has the same id."""

    def look(self, runs: Mapping[str, SentRun]) -> Mapping[str, Sight]:
        """Return what is known of each run that answers now, by the name of its job."""

    def stop(self, run: SentRun, why: str) -> None:
        """Ask a run to save and end; do nothing if it has ended already."""

    def find_lost(self) -> frozenset[tuple[int, int]]:
        """Return the (pool, node) pairs that take no job now."""

    def has_everywhere(self, job: PlanJob) -> bool:
        """Return True if every pool can read what the job saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWorld:
    """Holds what a run of a plan needs from outside: executor, clock, journal and solver."""

    executor: Executor
    journal: PlanJournal
    now: Callable[[], float]  # Unix seconds
    pause: Callable[[], None]  # waits until it is time to look again
    solve: Solve
    switch_seconds: int
    began: float  # when the plan was first run
    say: Say
    changed: Callable[[Ledger], None] = lambda _: None  # called when the ledger has changed, to draw it


class PlanRun:
    """A plan that runs; `finish` runs it to its end."""

    def __init__(self, plan: Plan, world: PlanWorld, events: list[HappenedEvent]) -> None:
        self.plan = plan
        self._world = world
        self.ledger = new_ledger(plan.jobs, events)
        self._paces: dict[str, float] = {}
        self._lost: frozenset[tuple[int, int]] = frozenset()
        self._homeless: tuple[str, ...] = ()
        self._refused: dict[str, str] = {}
        self._by_name = {job.name: job for job in plan.jobs}

    def finish(self) -> Ledger:
        if not self.ledger.plans:
            first = PlanReplaced(at=self._world.began, why="", assignments=self.plan.assignments)
            self._note(first)
        for job in self.ledger.jobs.values():  # repeat the requests that a killed run had begun
            if job.stage is JobStage.STOPPING and (run := _run_of(job)):
                self._world.executor.stop(run, job.why)
        while not self.ledger.is_over:
            self.step()
            if not self.ledger.is_over:
                self._world.pause()
        return self.ledger

    def step(self) -> None:
        # Submit the attempts that were intended but not taken: we were killed, or the cluster was busy.
        for name, job in [*self.ledger.jobs.items()]:
            if job.stage is JobStage.SENDING:
                self._send(name)
        held = {name: _run_of(job) for name, job in self.ledger.jobs.items() if job.stage.is_held}
        sights = self._world.executor.look({name: run for name, run in held.items() if run})
        news = [*self._note_ended(sights), *self._note_lost(), *self._note_paces(sights)]
        news += [  # jobs in the plan's file that it had not when the run began
            f"{name} was added"
            for name, job in self.ledger.jobs.items()
            if job.stage is JobStage.WAITING and job.planned is None and name not in self._homeless
        ]
        while found := [*decisions.find_skipped(self.plan.jobs, self.ledger)]:
            for skipped, waited_for in found:
                why = f"{waited_for} {self.ledger.jobs[waited_for].stage}"
                self._note(JobSkipped(at=self._now(), job=skipped.name, why=why))
        if news and not self.ledger.is_over:
            self._plan_again(sights, news)
        self._stop_movers()
        self._start()

    def _note_ended(self, sights: Mapping[str, Sight]) -> list[str]:
        news = []
        for name, sight in sights.items():
            if sight.outcome is None:
                continue
            job = self.ledger.jobs[name]
            is_moving = job.stage is JobStage.STOPPING and sight.outcome != "succeeded"
            outcome = "stopped" if is_moving or sight.outcome == "lost" else sight.outcome
            assert job.assignment is not None, "it has run"
            ratios = decisions.standing_of(job, sight, self._now(), saved_in=None).ratios
            left = 0.0 if outcome == "succeeded" else decisions.left_after(job, sight)
            event = AttemptEnded(
                at=sight.ended or self._now(),
                job=name,
                outcome=outcome,
                left=left,
                began=sight.began,
                ratio=ratios.get(job.assignment.mode.type, 1.0),
                why="" if outcome == "succeeded" else sight.why,
            )
            self._note(event)
            was = "was " if sight.outcome in ("withdrawn", "lost") else ""
            words = "has stopped to go on elsewhere" if is_moving else f"{was}{sight.outcome}"
            self._world.say(f"{name} {words}")
            news.append(f"{name} {words}" + (f": {event.why}" if event.why and not is_moving else ""))
        return news

    def _note_lost(self) -> list[str]:
        lost = self._world.executor.find_lost()
        changes = ((lost - self._lost, "lost"), (self._lost - lost, "back"))
        self._lost = lost
        return [
            f"node {node} of {self._place(pool)} is {now}"
            for nodes, now in changes
            for pool, node in sorted(nodes)
        ]

    def _note_paces(self, sights: Mapping[str, Sight]) -> list[str]:
        news = []
        for name, sight in sights.items():
            job = self.ledger.jobs[name]
            if job.stage is not JobStage.RUNNING or sight.began is None:
                continue
            _, pace = decisions.progress_of(job, sight, self._now())
            attempt = f"{name}:{job.attempt}"
            known = self._paces.get(attempt)
            if pace is None:
                continue
            if known is None or abs(pace / known - 1) > decisions.OFF:  # until then, a job cannot move
                self._paces[attempt] = pace
                news.append(f"what is left of {name} takes {pace * _PERCENT:.0f} % of its estimate")
        return news

    def _plan_again(self, sights: Mapping[str, Sight], news: list[str]) -> None:
        now = self._now()
        left = [job for job in self.plan.jobs if not self.ledger.jobs[job.name].stage.is_final]
        standings = {
            job.name: decisions.standing_of(
                self.ledger.jobs[job.name], sights.get(job.name), now, saved_in=self._saved_in(job)
            )
            for job in left
        }
        situation = Situation(
            jobs=tuple(left),
            pools=self.plan.pools,
            goal=self.plan.goal,
            standings=standings,
            switch_seconds=self._world.switch_seconds,
            lost=self._lost,
        )
        answer = replan(situation, self._world.solve)
        self._homeless = answer.homeless
        assignments = tuple(as_assignment(name, slot) for name, slot in answer.slots.items())
        is_told = any(sight.outcome == "lost" for sight in sights.values())  # even if no job moves
        if not is_told and not decisions.is_another_plan(self.ledger, assignments):
            return
        why = "; ".join(news)
        self._note(PlanReplaced(at=now, why=why, assignments=assignments))
        moved = f"; {', '.join(answer.moved)} move" if answer.moved else ""
        homeless = f"; no room for {', '.join(answer.homeless)}" if answer.homeless else ""
        self._world.say(f"planned again, since {why}{moved}{homeless}")

    def _stop_movers(self) -> None:
        for name, _ in [*decisions.find_movers(self.ledger)]:
            run = _run_of(self.ledger.jobs[name])
            assert run is not None
            why = "it goes on elsewhere"
            self._note(AttemptStopping(at=self._now(), job=name, why=why))
            self._world.executor.stop(run, why)

    def _start(self) -> None:
        for job, assignment in [*decisions.find_ready(self.plan.jobs, self.ledger)]:
            standing, saved_in = self.ledger.jobs[job.name], self._saved_in(job)
            self._note(
                AttemptIntended(
                    at=self._now(),
                    job=job.name,
                    attempt=standing.attempt + 1,
                    left=standing.left if saved_in is None or assignment.pool in saved_in else 1.0,
                    assignment=assignment,
                )
            )
            self._send(job.name)

    def _saved_in(self, job: PlanJob) -> frozenset[int] | None:
        """Return the pools of the only cluster with a job's checkpoints; None if all pools can read them."""
        stints, current = self.ledger.jobs[job.name].stints, self.ledger.jobs[job.name].assignment
        last = current or (stints[-1].assignment if stints else None)
        if last is None or self._world.executor.has_everywhere(job):
            return None
        pools = self.plan.pools
        same = (place for place, pool in enumerate(pools) if pool.cluster == pools[last.pool].cluster)
        return frozenset(same)

    def _send(self, name: str) -> None:
        standing = self.ledger.jobs[name]
        assert standing.assignment is not None
        try:
            run = self._world.executor.send(self._by_name[name], standing.assignment, standing.attempt)
        except SlipwayError as error:
            if error.exit_code == MISTAKE:
                raise
            if self._refused.get(name) != error.message:
                self._refused[name] = error.message
                self._world.say(f"{name} is tried again: {error.message}")
            return
        again = f", attempt {standing.attempt}" if standing.attempt > 1 else ""
        self._world.say(f"{name} goes to {self._place(standing.assignment.pool)} as {run}{again}")
        self._note(AttemptSubmitted(at=self._now(), job=name, run=run))

    def _note(self, event: HappenedEvent) -> None:
        self._world.journal.write(event)
        self.ledger = after(self.ledger, event)
        self._world.changed(self.ledger)

    def _place(self, pool: int) -> str:
        where = self.plan.pools[pool]
        return where.cluster or where.type

    def _now(self) -> float:
        return self._world.now()


def _run_of(job: JobStanding) -> SentRun | None:
    return SentRun(job.assignment.pool, job.run, job.sent_at) if job.assignment and job.run else None
