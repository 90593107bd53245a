"""The plan of tasks over clusters: a job of the recipe `command` for each, whose modes are whole commands."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from slipway.jobs.code.command_job import RECIPE
from slipway.jobs.code.packing import PackedProject
from slipway.jobs.code.uploading import project_url
from slipway.jobs.plan.inputs.planning import plan
from slipway.jobs.plan.search.model import Mode, Plan, PlanJob
from slipway.jobs.plan.tasks.on_clusters.brought_back import checkpoints_key, checkpoints_url
from slipway.jobs.plan.tasks.on_clusters.places import TaskCluster
from slipway.jobs.plan.tasks.on_clusters.sent_code import TRAIN, task_settings
from slipway.jobs.plan.tasks.task import Strategy, Task
from slipway.jobs.words.job import Job
from slipway.jobs.words.targets import Target

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_STEM_LENGTH = 40  # of a job's name: the moment is behind it, so that another orchestration has other jobs


def plan_there(
    tasks: Sequence[Task],
    clusters: Sequence[TaskCluster],
    code: PackedProject,
    *,
    began: float,
    time_limit: float,
) -> Plan:
    """Plan the tasks over the clusters by their strategies there."""
    source = f"/{code.digest}.tar.gz"  # of no bucket yet: InBucket says which
    jobs = [
        PlanJob(
            name=task.name,
            modes=tuple(mode for cluster in clusters for mode in _modes(task, cluster, source)),
            job=Job(
                name=_job_name(task.name, began),
                recipe=RECIPE,
                nodes=1,
                settings=task_settings(TRAIN, task.describe(), {}, source),
            ),
        )
        for task in tasks
    ]
    return plan(jobs, [cluster.pool for cluster in clusters], time_limit=time_limit)


def _modes(task: Task, cluster: TaskCluster, source: str) -> Iterator[Mode]:
    for devices, strategy in sorted(task.strategies_at(cluster.name).items()):
        yield Mode(
            technique=strategy.technique,
            type=cluster.pool.type,
            devices=cluster.nodes_of(devices),
            seconds=max(1, math.ceil(strategy.runtime)),
            source=strategy.source,
            error=strategy.error,
            settings=_command(task, strategy, source),
        )


def _command(task: Task, strategy: Strategy, source: str) -> tuple[tuple[str, str], ...]:
    settings = {name: str(value) for name, value in strategy.parameters.items()}
    return (("command", task_settings(TRAIN, task.describe(), settings, source)["command"]),)


def _job_name(name: str, began: float) -> str:
    stem = _NO_NAME.sub("-", name).strip("-_")[:_STEM_LENGTH] or "task"
    return f"{stem}-{int(began):x}"


@dataclass(frozen=True, slots=True)
class InBucket:
    """Complete a task's job with what depends on its cluster: where its code and its checkpoints lie."""

    clusters: Mapping[str, TaskCluster]
    keys: Mapping[str, str]  # of the checkpoints, by the job's name

    @classmethod
    def of(cls, made: Plan, tasks: Sequence[Task], clusters: Sequence[TaskCluster]) -> InBucket:
        by_name = {task.name: task for task in tasks}
        keys = {job.job.name: checkpoints_key(by_name[job.name]) for job in made.jobs if job.job}
        return cls({cluster.name: cluster for cluster in clusters}, keys)

    def __call__(self, job: Job, target: Target) -> Job:
        digest = job.settings["source"].rpartition("/")[2].partition(".")[0]
        return replace(
            job,
            settings={**job.settings, "source": project_url(digest, target)},
            checkpoints=checkpoints_url(self.keys[job.name], target),
            processes_per_node=self.clusters[target.name].ranks_per_node,
        )
