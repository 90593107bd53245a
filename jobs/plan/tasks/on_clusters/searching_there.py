"""`search(tasks, on=[…])`: find out how each task trains fastest on deployed clusters."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slipway.containers.tasks.trial import find_result
from slipway.jobs.cloud import aws
from slipway.jobs.code.command_job import RECIPE
from slipway.jobs.code.packing import PackedProject, project_url
from slipway.jobs.code.user_modules import CannotTravel
from slipway.jobs.plan.run.clusters import START_SECONDS, outcome_of
from slipway.jobs.plan.tasks.library import retrieve
from slipway.jobs.plan.tasks.local_machine import scratch_folder
from slipway.jobs.plan.tasks.on_clusters.sent_code import (
    TRY,
    ClusterOrder,
    TaskCluster,
    find_clusters,
    named_tasks,
    packed_code,
    send_code,
    task_settings,
)
from slipway.jobs.plan.tasks.profiling import Profiler
from slipway.jobs.plan.tasks.task import Task
from slipway.jobs.plan.tasks.trials import (
    MOST_SECONDS,
    TRIAL_STEPS,
    Combination,
    Profile,
    numbers_of,
    profile_of,
)
from slipway.jobs.plan.techniques.techniques import TECHNIQUES
from slipway.jobs.platforms.mpi.platform import Busy
from slipway.jobs.submit.find import refresh
from slipway.jobs.submit.logs import Wanted, follow_lines
from slipway.jobs.submit.submission import Submitted, submit
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import Job
from slipway.jobs.words.run import AGREED_UNSAID, Agreed, JobState, Run
from slipway.jobs.words.text import Say


def search_on(
    tasks: Sequence[Task], executor_names: Sequence[str] | None, order: ClusterOrder, say: Say
) -> None:
    """Try tasks on the clusters of the order, and give each its `strategies_on`."""
    named = named_tasks(tasks)
    with packed_code(named) as code:
        names = _ours(executor_names)
        search_there(named, trial_places(find_clusters(order), code, order, say), names)


def trial_places(
    clusters: Iterable[TaskCluster], code: PackedProject, order: ClusterOrder, say: Say
) -> list[ClusterTrials]:
    return [ClusterTrials(cluster=each, code=code, say=say, agreed=order.agreed) for each in clusters]


def search_there(
    tasks: Sequence[Task], places: Sequence[ClusterTrials], names: Iterable[str] = TECHNIQUES
) -> None:
    """Send the code, and try the techniques on each cluster."""
    for task in tasks:
        task.not_fitting.clear()
    ranges = [task.gpu_range for task in tasks]
    wanted = None if None in ranges else {count for each in ranges for count in each or ()}
    for place in places:
        cluster = place.cluster
        for task in tasks:
            task.strategies_at(cluster.name).clear()
        counts = cluster.counts(wanted)
        if not counts:
            continue
        send_code(place.code, cluster.target)
        with scratch_folder() as scratch:
            Profiler(
                place=place,
                cluster=cluster.name,
                folder=Path(scratch),
                counts=counts,
                names=list(names),
                say=place.say,
            ).profile(tasks)
    where = ", ".join(place.cluster.name for place in places)
    for task in tasks:
        if not any(task.strategies_at(place.cluster.name) for place in places):
            otherwise = "no number of devices that its gpu_range allows fills whole nodes"
            hint = "change the task, or name another cluster"
            raise hopeless(task, where, otherwise=otherwise, hint=hint)


def hopeless(task: Task, where: str, *, otherwise: str, hint: str) -> SlipwayError:
    """Return an error that says why nothing can train a task there: the noted reasons, or `otherwise`."""
    reasons = "; ".join(f"{words}: {reason}" for words, reason in task.not_fitting.items())
    return SlipwayError(f"nothing can train task '{task.name}' on {where}: {reasons or otherwise}", hint=hint)


def _ours(names: Sequence[str] | None) -> list[str]:
    """Return the techniques to try; refuse the user's own, which run only on this machine."""
    for name in names or ():
        retrieve(name)  # refuses an unknown name
        if name not in TECHNIQUES:
            raise CannotTravel(
                f"technique '{name}' is a class of yours, and trains on this machine alone",
                hint=f"on clusters there are {', '.join(TECHNIQUES)}; or leave out `on`",
            )
    return list(names or TECHNIQUES)


# Trials on a cluster: each is a job that trains a few batches and prints what they took.
_BUSY_LOOKS, _BUSY_SECONDS = 120, 5.0
_ERROR = re.compile(r"(?:\[\d+\] )?error: (.*)")
_LOST_PEER = "lost another rank"


@dataclass(slots=True, kw_only=True)
class ClusterTrials:
    """Try tasks on one cluster, as many at once as its nodes allow; one thread at a time calls AWS."""

    cluster: TaskCluster
    code: PackedProject
    say: Say
    agreed: Agreed = AGREED_UNSAID
    _taken: int = 0  # nodes
    _turn: threading.Condition = field(default_factory=threading.Condition)

    @property
    def identity(self) -> Sequence[str]:
        target = self.cluster.target
        where = (target.name, target.account, target.region, target.instance_type)
        return [*where, str(self.cluster.ranks_per_node), aws.endpoint() or ""]

    def ranks_on_node(self, devices: int) -> int:
        return min(devices, self.cluster.ranks_per_node)

    def run(self, tried: Combination, folder: Path) -> Profile:
        """Return what a trial's job finds; submit again a job that was sent before and found nothing."""
        job = self._job(tried)
        with self._turn:
            self._turn.wait_for(lambda: self._taken + job.nodes <= self.cluster.nodes)
            self._taken += job.nodes
            try:
                sent = self._send(job, again=False)
                found = self._follow(sent)
                if found.seconds is None and sent.existed:
                    found = self._follow(self._send(job, again=True))
            finally:
                self._taken -= job.nodes
                self._turn.notify_all()
        return found

    def _pause(self, seconds: float) -> None:
        """Give other trials their turn; a trial that ends may end the pause early."""
        self._turn.wait(seconds)

    def _follow(self, sent: Submitted) -> Profile:
        target = self.cluster.target
        began = refresh(sent.job_id, target)
        lines = [line.text for line in follow_lines(began, Wanted(), to_end=True, pause=self._pause)]
        return profile_from(refresh(sent.job_id, target).run, lines)

    def _job(self, tried: Combination) -> Job:
        settings = {**tried.variant.settings, "steps": str(TRIAL_STEPS)}
        source = project_url(self.code.digest, self.cluster.target)
        return Job(
            name="trial",
            recipe=RECIPE,
            nodes=self.cluster.nodes_of(tried.devices),
            settings=task_settings(TRY, tried.task, settings, source),
            timeout_seconds=int(MOST_SECONDS) + START_SECONDS,
            processes_per_node=self.cluster.ranks_per_node,
        )

    def _send(self, job: Job, *, again: bool) -> Submitted:
        """Submit a trial once the cluster takes it: an MPI cluster runs one job at a time."""
        target = self.cluster.target
        for look in range(_BUSY_LOOKS):
            try:
                return submit(job, target.name, target.region, again=again, agreed=self.agreed, say=self.say)
            except Busy as error:
                if look == _BUSY_LOOKS - 1:
                    raise
                self.say(f"a trial waits: {error.message}")
                self._pause(_BUSY_SECONDS)
        raise AssertionError("the last look returns or raises")


def profile_from(run: Run, lines: Iterable[str]) -> Profile:
    """Return what a trial's job found, or why it failed; keep that only if a rank's own error ended it."""
    said = list(lines)
    result = find_result(said) or {}
    facts = result.get("facts")
    known = numbers_of(facts) if isinstance(facts, Mapping) else None
    seconds = result.get("seconds")
    taken = [float(str(each)) for each in seconds][1:] if isinstance(seconds, list) else []
    if run.state is JobState.SUCCEEDED and taken:
        began, ended = run.started_at, run.stopped_at
        whole = (ended - began).total_seconds() if began and ended else 0.0
        return profile_of(taken, whole, known)
    errors = [match[1] for line in said if (match := _ERROR.match(line)) and _LOST_PEER not in match[1]]
    reason = errors[-1] if errors else run.reason or f"its job ended as {run.status}"
    return Profile(facts=known, reason=reason, is_kept=bool(errors) and outcome_of(run) == "failed")
