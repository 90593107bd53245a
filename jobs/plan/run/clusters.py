"""Run a plan's jobs on clusters: submit each attempt as an ordinary job, follow it and cancel it."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.cloud.deployed import find_target, find_target_by_name
from slipway.jobs.clusters.images.builds import image_at
from slipway.jobs.code.command_job import RECIPE, refuse_uninstallable
from slipway.jobs.code.packing import read_kept, with_sent_source, with_source_at
from slipway.jobs.plan.run.decisions import Report, Sight
from slipway.jobs.plan.run.journal import Ledger, PlanJournal
from slipway.jobs.plan.run.running import PlanWorld, SentRun
from slipway.jobs.plan.search.model import SWITCH_SECONDS, Assignment, Plan, PlanJob, Pool
from slipway.jobs.platforms.platform import platform_of
from slipway.jobs.submit.curve import points
from slipway.jobs.submit.find import UnknownJob, refresh
from slipway.jobs.submit.logs import LogReader
from slipway.jobs.submit.preparing import prepare
from slipway.jobs.submit.submission import submit
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import SHORTEST_TIMEOUT_SECONDS, Job
from slipway.jobs.words.run import Agreed, AnyFound, JobState, Run
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import Say, money, printable

# How long beyond its plan a job may run before its cluster ends it: nodes boot, images are pulled. A
# scheduler fills the gaps before a large job only with jobs whose time limit it knows.
START_SECONDS = 900
# How the platforms report a job that somebody ended, and one whose machine was lost.
_WITHDRAWN = re.compile(r"cancel|^stopped$|terminated by", re.IGNORECASE)
_LOST = re.compile(r"MainNodeLost|NODE_FAIL|BOOT_FAIL|Host EC2| was lost")


LOOK_SECONDS, YARD_LOOK_SECONDS = 15.0, 1.0
REMEMBERED_SECONDS = 86_400.0  # every platform knows a job for longer; AWS Batch for seven days after its end
PLAN_AGREED = Agreed(usd=float(sys.maxsize), is_unknown_fine=True)  # a plan is agreed to as a whole


class NoTarget(SlipwayError):
    """Reports a plan that cannot be submitted as it is."""

    exit_code = 2


class Unreached(SlipwayError):
    """Reports that AWS could not be reached: what was asked of it is asked again."""


@dataclass(slots=True)
class WatchedRun:
    """Remembers where a run is, and how far its log was read."""

    target: Target
    log: LogReader | None = None  # None: the run has not started
    first: Report | None = None
    last: Report | None = None


@dataclass(frozen=True, slots=True)
class ClusterExecutor:
    """Submits to the clusters of a plan's pools; `tag` marks the jobs of this run of the plan."""

    pools: tuple[Pool, ...]
    tag: str
    say: Say = lambda _: None
    complete: Callable[[Job, Target], Job] = lambda job, target: job  # fills in what depends on the cluster
    targets: dict[int, Target] = field(default_factory=dict)
    _watched: dict[SentRun, WatchedRun] = field(default_factory=dict)
    _silent: set[str] = field(default_factory=set)  # the jobs of which AWS told nothing at the last look

    def send(self, job: PlanJob, assignment: Assignment, attempt: int) -> str:
        pool, target = self.pools[assignment.pool], self._target(assignment.pool)
        try:
            wanted = self.complete(as_job(job, assignment, pool, self.tag, attempt), target)
            sent = submit(wanted, target.name, target.region, agreed=PLAN_AGREED, say=self.say)
        except Exception as error:
            if (why := aws.why_later(error)) is None:
                raise
            aws.forget_clients()
            raise Unreached(f"AWS: {why}") from None
        return sent.job_id

    def look(self, runs: Mapping[str, SentRun]) -> Mapping[str, Sight]:
        found = {}
        for name, run in runs.items():
            try:
                found[name] = self._sight(run)
            except Exception as error:
                if (why := aws.why_later(error)) is None:
                    raise
                if name not in self._silent:
                    self.say(f"{name} is looked at again later: {why}")
                self._silent.add(name)
                aws.forget_clients()
        self._silent.difference_update(found)
        return found

    def stop(self, run: SentRun, why: str) -> None:
        def ask() -> None:
            found = self._found(run)
            if found and not found.run.state.is_final:
                platform_of(found.target).cancel(found, why)

        aws.outlast(ask)

    def find_lost(self) -> frozenset[tuple[int, int]]:
        """Return the nodes that a cluster no longer has: it was destroyed, or deployed again with fewer.

        A broken machine does not count: another one replaces it.
        """
        lost: set[tuple[int, int]] = set()
        for index, pool in enumerate(self.pools):
            found = find_target(pool.cluster, self._target(index).region)
            if not isinstance(found, Unanswered):
                lost.update((index, node) for node in range(found.max_nodes if found else 0, pool.nodes))
        return frozenset(lost)

    def has_everywhere(self, job: PlanJob) -> bool:
        """Return True if the checkpoints are on S3: files on a cluster can be read only there."""
        return job.job is not None and (job.job.checkpoints or "").startswith("s3://")

    def _sight(self, run: SentRun) -> Sight:
        found = self._found(run)
        if found is None:  # sent again, it resumes where it had saved
            return Sight(outcome="lost", why="AWS has forgotten how it ended")
        watched = self._watched[run]
        _read_progress(found, watched)
        return Sight(
            outcome=outcome_of(found.run),
            began=found.run.started_at.timestamp() if found.run.started_at else None,
            ended=found.run.stopped_at.timestamp() if found.run.stopped_at else None,
            first=watched.first,
            last=watched.last,
            why=found.run.reason or "",
        )

    def _found(self, run: SentRun) -> AnyFound | None:
        """Return the run; None if it ended so long ago that AWS has forgotten it."""
        if run not in self._watched:
            self._watched[run] = WatchedRun(self._target(run.pool))
        try:
            return refresh(run.id, self._watched[run].target)
        except UnknownJob:
            if time.time() - run.at < REMEMBERED_SECONDS:
                raise  # a service may be slow to list a new job
            return None

    def _target(self, pool_index: int) -> Target:
        if pool_index not in self.targets:
            pool = self.pools[pool_index]
            assert pool.cluster, "a plan that has pools without a cluster is refused"
            self.targets[pool_index] = find_target_by_name(pool.cluster, None)
        return self.targets[pool_index]


def _read_progress(found: AnyFound, watched: WatchedRun) -> None:
    """Read what rank 0 printed since the last look."""
    if found.run.started_at is None:
        return
    if watched.log is None:
        watched.log = LogReader(group=found.target.log_group, region=found.target.region)
    watched.log.watch(platform_of(found.target).log_streams(found, 0))
    for page in watched.log.read_new():
        for line in page:
            for point in points([line.text]):
                if not point.steps:
                    continue
                watched.last = Report(at=line.time.timestamp(), done=point.step / point.steps)
                watched.first = watched.first or watched.last


def world_of(
    executor: ClusterExecutor,
    journal: PlanJournal,
    began: float,
    changed: Callable[[Ledger], None],
    switch_seconds: int = SWITCH_SECONDS,
) -> PlanWorld:
    """Build the PlanWorld of a plan that runs on clusters."""
    from slipway.jobs.plan.search.first_plan import greedy

    look = YARD_LOOK_SECONDS if aws.is_in_yard() else LOOK_SECONDS
    return PlanWorld(
        executor=executor,
        journal=journal,
        now=time.time,
        pause=lambda: time.sleep(look),
        solve=greedy,
        switch_seconds=switch_seconds,
        began=began,
        say=executor.say,
        changed=changed,
    )


def amount_beyond(plan: Plan, agreed: Agreed) -> str:
    """Return what a plan costs if that is more than was agreed to, else ''; 0 is an unknown price."""
    unpriced = sorted({printable(pool.type[:60]) for pool in plan.pools if not pool.price_per_hour})
    if aws.is_in_yard() or (agreed.is_unknown_fine if unpriced else plan.dollars <= agreed.usd):
        return ""
    if unpriced:
        return f"an amount that is not known (no price of {', '.join(unpriced)})"
    return f"about {money(plan.dollars)} USD"


def refuse_unrunnable(plan: Plan) -> None:
    """Refuse a plan if any part of it cannot be submitted, before anything is."""
    for pool in plan.pools:
        if not pool.cluster:
            raise NoTarget(
                f"the plan's pool of {pool.type} is no cluster, so nothing can run there",
                hint="name clusters in the plan's pools: docs/planner.md",
            )
    for job in plan.jobs:
        if job.job is None:
            raise NoTarget(
                f"job '{job.name}' has modes but no recipe, so it cannot be submitted",
                hint="plan from a TOML file of recipes: docs/planner.md",
            )
    for pool in plan.pools:
        # All modes count, not only the chosen ones: the next plan for what is left may take others.
        parts = {
            job.name: mode.devices
            for job in plan.jobs
            for mode in job.modes
            if mode.type == pool.type and mode.devices < pool.devices_per_node
        }
        if len(parts) > 1:
            (one, taken), (other, _) = list(parts.items())[:2]
            raise NoTarget(
                f"jobs '{one}' and '{other}' may share a node of cluster '{pool.cluster}' ('{one}' takes "
                f"{taken} of its {pool.devices_per_node} devices), and a cluster gives each job whole nodes",
                hint="plan again with devices_per_node 1 in the pool, so that modes count whole nodes",
            )


def as_job(job: PlanJob, assignment: Assignment, pool: Pool, tag: str, attempt: int) -> Job:
    """Return the job of one attempt; all attempts share their checkpoints."""
    assert job.job is not None, "a plan that has jobs without a recipe is refused"
    share = assignment.mode.devices if assignment.mode.devices < pool.devices_per_node else None
    limit = math.ceil(assignment.seconds * (1 + assignment.mode.error)) + START_SECONDS
    return replace(
        job.job,
        nodes=len(assignment.placement),
        settings={**job.job.settings, **dict(assignment.mode.settings)},
        checkpoints=job.job.checkpoints or f"checkpoints/{tag}/{job.name}",
        timeout_seconds=max(SHORTEST_TIMEOUT_SECONDS, limit),
        processes_per_node=share or job.job.processes_per_node,
        repeat=attempt - 1,
    )


def outcome_of(run: Run) -> str | None:
    """Return how a run ended, as an outcome of Sight; None while it has not ended."""
    if not run.state.is_final:
        return None
    if run.state is JobState.SUCCEEDED:
        return "succeeded"
    said = f"{run.status} {run.reason or ''}"
    if _LOST.search(said):
        return "lost"
    return "withdrawn" if _WITHDRAWN.search(run.status) or _WITHDRAWN.search(run.reason or "") else "failed"


# Users' own commands in a plan: check them early against the clusters that it chose, and complete them.


def refuse_unfit_commands(plan: Plan) -> None:
    """Before anything is submitted, refuse the commands that their clusters would refuse later."""
    jobs = {job.name: job for job in plan.jobs}
    for assignment in plan.assignments:
        job, pool = jobs[assignment.job], plan.pools[assignment.pool]
        if job.job is None or job.job.recipe != RECIPE:
            continue
        target = find_target_by_name(pool.cluster, None)
        try:
            wanted = as_job(job, assignment, pool, "plan", attempt=1)
            if requirements := wanted.settings.get("requirements"):
                refuse_uninstallable(requirements, read_kept(wanted, requirements), target)
            here = with_source_at(_with_image(wanted, target), target)
            platform_of(target).refuse_unready(prepare(here, target.name, target.region))
        except SlipwayError as error:
            raise NoTarget(f"job '{job.name}' of the plan: {error.message}", hint=error.hint) from None


def completed(job: Job, target: Target) -> Job:
    """Send the folder of a command to the cluster that the plan chose, and name its image there."""
    return with_sent_source(_with_image(job, target), target, aws.client("s3", target.region))


def _with_image(job: Job, target: Target) -> Job:
    return job if job.image is None else replace(job, image=image_at(job.image, target))
