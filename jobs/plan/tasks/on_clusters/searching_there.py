"""`search(tasks, on=[…])`: find out how each task trains fastest on deployed clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slipway.jobs.code.packing import PackedProject
from slipway.jobs.plan.tasks.library import retrieve
from slipway.jobs.plan.tasks.local_machine import scratch_folder
from slipway.jobs.plan.tasks.on_clusters.cluster_trials import ClusterTrials
from slipway.jobs.plan.tasks.on_clusters.places import ClusterOrder, TaskCluster, find_clusters
from slipway.jobs.plan.tasks.on_clusters.sent_code import CannotTravel, named_tasks, packed_code, send_code
from slipway.jobs.plan.tasks.profiling import Profiler
from slipway.jobs.plan.tasks.task import Task
from slipway.jobs.plan.techniques.registry import TECHNIQUES
from slipway.jobs.words.cost import Agreed
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import Say

_NOTHING_TRIED = "no number of devices that its gpu_range allows fills whole nodes"


def search_on(
    tasks: Sequence[Task], executor_names: Sequence[str] | None, order: ClusterOrder, say: Say
) -> None:
    """Try tasks on the clusters of the order, and give each its `strategies_on`."""
    named = named_tasks(tasks)
    with packed_code(named) as code:
        search_there(named, _ours(executor_names), find_clusters(order), code, order.agreed, say)


def search_there(
    tasks: Sequence[Task],
    names: Sequence[str] | None,
    clusters: Sequence[TaskCluster],
    code: PackedProject,
    agreed: Agreed,
    say: Say,
) -> None:
    """Send the code, and try the techniques (all of ours) on each cluster."""
    for task in tasks:
        task.not_fitting.clear()
    for cluster in clusters:
        for task in tasks:
            task.strategies_at(cluster.name).clear()
        counts = _counts(tasks, cluster)
        if not counts:
            continue
        send_code(code, cluster.target)
        with scratch_folder() as scratch:
            Profiler(
                place=ClusterTrials(cluster=cluster, code=code, say=say, agreed=agreed),
                cluster=cluster.name,
                folder=Path(scratch),
                counts=counts,
                names=list(names or TECHNIQUES),
                say=say,
            ).profile(tasks)
    for task in tasks:
        _refuse_hopeless(task, clusters)


def _counts(tasks: Sequence[Task], cluster: TaskCluster) -> list[int]:
    """Return the numbers of devices that any of the tasks may have."""
    ranges = [task.gpu_range for task in tasks]
    wanted = {count for each in ranges for count in each or ()}
    return cluster.counts(None if None in ranges else wanted)


def _refuse_hopeless(task: Task, clusters: Sequence[TaskCluster]) -> None:
    if any(task.strategies_at(cluster.name) for cluster in clusters):
        return
    reasons = "; ".join(f"{words}: {reason}" for words, reason in task.not_fitting.items())
    where = ", ".join(cluster.name for cluster in clusters)
    raise SlipwayError(
        f"nothing can train task '{task.name}' on {where}: {reasons or _NOTHING_TRIED}",
        hint="change the task, or name another cluster",
    )


def _ours(names: Sequence[str] | None) -> list[str]:
    """Return the techniques to try; those of the user's own run on this machine alone."""
    for name in names or ():
        retrieve(name)  # refuses one that is not there
        if name not in TECHNIQUES:
            raise CannotTravel(
                f"technique '{name}' is a class of yours, and trains on this machine alone",
                hint=f"on clusters there are {', '.join(TECHNIQUES)}; or leave out `on`",
            )
    return list(names or TECHNIQUES)
