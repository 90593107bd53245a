"""`orchestrate(tasks, on=[…])`: plan tasks over deployed clusters, and run the plan as `run-plan` does.

The plan and its journal lie next to the trained models until all tasks have ended: the same script, started
again, goes on with them and submits nothing twice.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from slipway.containers.runtime.checkpoint import manifest
from slipway.containers.runtime.checkpoint.storage import step_name
from slipway.jobs.cloud import aws
from slipway.jobs.code.command_job import RECIPE
from slipway.jobs.code.packing import PackedProject, project_url
from slipway.jobs.plan.inputs.plan_json import encode_plan, read_plan
from slipway.jobs.plan.inputs.planning import plan
from slipway.jobs.plan.run.clusters import ClusterExecutor, amount_beyond, world_of
from slipway.jobs.plan.run.journal import JobStage, Ledger, PlanJournal, Stint
from slipway.jobs.plan.run.running import PlanRun
from slipway.jobs.plan.search.model import Assignment, Mode, Plan, PlanJob
from slipway.jobs.plan.tasks.on_clusters.searching_there import search_there, trial_places
from slipway.jobs.plan.tasks.on_clusters.sent_code import (
    TRAIN,
    ClusterOrder,
    TaskCluster,
    find_clusters,
    named_tasks,
    packed_code,
    send_code,
    task_settings,
)
from slipway.jobs.plan.tasks.saved_models import CHECKPOINTS
from slipway.jobs.plan.tasks.searching import (
    Orchestration,
    TaskEnd,
    is_trained,
    mark_trained,
    refuse_failures,
)
from slipway.jobs.plan.tasks.task import Task
from slipway.jobs.platforms.on_nodes import write_whole
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import JOB_PREFIXES, Job
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import Say, money

# Copy the newest checkpoint of a task from a cluster's bucket into the task's own folder.
_MANIFEST = re.compile(rf"step-([0-9]{{10}})/{manifest.NAME}", re.ASCII)


class NothingSaved(SlipwayError):
    """Reports a trained task without a checkpoint."""


def checkpoints_key(task: Task) -> str:
    """Return the task's key in a cluster's bucket: the same task finds its checkpoints again."""
    record = json.dumps(task.describe().identity(), sort_keys=True)
    digest = hashlib.sha256(record.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{JOB_PREFIXES[1]}tasks/{digest}"


def checkpoints_url(key: str, target: Target) -> str:
    return f"s3://{target.bucket}/{key}"


def bring_back(task: Task, target: Target) -> None:
    """Copy the newest checkpoint, its manifest last, so that an incomplete copy does not count."""
    s3, key = aws.reader("s3", target.region), checkpoints_key(task)
    owner = {"Bucket": target.bucket, "ExpectedBucketOwner": target.account}
    pages = s3.get_paginator("list_objects_v2").paginate(Prefix=f"{key}/", **owner)
    names = [each["Key"].removeprefix(f"{key}/") for page in pages for each in page.get("Contents", [])]
    steps = [int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name))]
    if not steps:
        raise NothingSaved(
            f"task '{task.name}' has no checkpoint at {checkpoints_url(key, target)}",
            hint="somebody removed it: give the task another save_dir, and orchestrate again",
        )
    newest = step_name(max(steps))
    begin = f"{key}/{newest}"
    content = s3.get_object(Key=f"{begin}/{manifest.NAME}", **owner)["Body"].read()
    found = manifest.decode(content, where=begin)
    folder = task.folder / CHECKPOINTS / newest
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for rank, file in enumerate(found.ranks):
        files.append(replace(file, name=manifest.file_name(rank)))
        body = s3.get_object(Key=f"{begin}/{file.name}", **owner)["Body"]
        with (folder / files[-1].name).open("wb") as copy:
            for chunk in body.iter_chunks(1 << 20):
                copy.write(chunk)
    (folder / manifest.NAME).write_bytes(manifest.encode(replace(found, ranks=tuple(files))))


_DIGEST_LENGTH = 12


class TooDear(SlipwayError):
    """Reports a plan that may cost more than was agreed to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksThere:
    """Hold the tasks of one orchestration, their clusters, and where its plan is kept."""

    tasks: Sequence[Task]
    clusters: Sequence[TaskCluster]
    order: ClusterOrder
    say: Say

    @property
    def plan_file(self) -> Path:
        marks = sorted(json.dumps(task.describe().as_json(), sort_keys=True) for task in self.tasks)
        digest = hashlib.sha256(json.dumps([marks, sorted(self.order.names)]).encode()).hexdigest()
        folder = Path(self.tasks[0].options.save_dir).resolve() / "plans"
        return folder / f"{digest[:_DIGEST_LENGTH]}.json"

    @property
    def journal_file(self) -> Path:
        return self.plan_file.with_suffix(".journal")


def orchestrate_on(tasks: Sequence[Task], order: ClusterOrder, time_limit: float, say: Say) -> Orchestration:
    """Train all tasks on the clusters of the order; raise if any of them fails."""
    named = named_tasks(tasks)
    with packed_code(named) as code:
        if all(is_trained(task) for task in named):
            return Orchestration(ends=(), planned_seconds=0.0, bound_seconds=0.0, seconds=0.0)
        there = TasksThere(tasks=named, clusters=find_clusters(order), order=order, say=say)
        if there.plan_file.is_file():
            say(f"going on with {there.plan_file}")
        else:
            _make_plan(there, code, time_limit)
        made = read_plan(there.plan_file)
        for cluster in there.clusters:
            send_code(code, cluster.target)
    began = time.monotonic()
    ledger = _run(there, made)
    for file in (there.plan_file, there.journal_file):
        file.unlink()
    result = Orchestration(
        ends=tuple(_end(job.name, ledger, made) for job in made.jobs),
        planned_seconds=float(made.makespan),
        bound_seconds=made.bound.value,
        seconds=time.monotonic() - began,
    )
    refuse_failures(result)
    return result


def _make_plan(there: TasksThere, code: PackedProject, time_limit: float) -> None:
    """Search for tasks without strategies, and write a plan that costs no more than was agreed to."""
    waiting = [task for task in there.tasks if not is_trained(task)]
    unknown = [
        task for task in waiting if not any(task.strategies_at(cluster.name) for cluster in there.clusters)
    ]
    if unknown:
        search_there(unknown, trial_places(there.clusters, code, there.order, there.say))
    made = plan_there(waiting, there.clusters, code, began=time.time(), time_limit=time_limit)
    if amount := amount_beyond(made, there.order.agreed):
        is_known = all(pool.price_per_hour for pool in made.pools)
        enough = f"usd={math.ceil(made.dollars)}" if is_known else "is_unknown_fine=True"
        raise TooDear(
            f"the plan of these {len(made.jobs)} tasks costs {amount}, and you agreed to "
            f"{money(there.order.agreed.usd)} USD",
            hint=f"orchestrate(…, agreed=Agreed({enough})), with Agreed of slipway.jobs.words.run",
        )
    write_whole(there.plan_file, encode_plan(made))


def _run(there: TasksThere, made: Plan) -> Ledger:
    journal, seen = PlanJournal(there.journal_file), partial(_bring_trained_back, there, made)
    executor = ClusterExecutor(
        pools=made.pools, tag=there.plan_file.stem, say=there.say, complete=_completed_in(there, made)
    )
    with journal.opened() as events:
        began = events[0].at if events else time.time()
        run = PlanRun(made, world_of(executor, journal, began, seen), events)
        seen(run.ledger)
        return run.finish()


def _bring_trained_back(there: TasksThere, made: Plan, ledger: Ledger) -> None:
    """Bring the model of each task back once it is trained."""
    targets = {cluster.name: cluster.target for cluster in there.clusters}
    for task in there.tasks:
        standing = ledger.jobs.get(task.name)
        if standing and standing.stage is JobStage.SUCCEEDED and not is_trained(task):
            pool = made.pools[standing.stints[-1].assignment.pool]
            bring_back(task, targets[pool.cluster])
            mark_trained(task)


def _end(name: str, ledger: Ledger, made: Plan) -> TaskEnd:
    standing = ledger.jobs[name]
    last: Stint | None = standing.stints[-1] if standing.stints else None
    ran: Assignment = last.assignment if last else next(each for each in made.assignments if each.job == name)
    pool = made.pools[ran.pool]
    return TaskEnd(
        name=name,
        technique=ran.mode.technique,
        devices=tuple(share.node for share in ran.placement),
        start=(standing.stints[0].began if last else ledger.began) - ledger.began,
        end=(last.ended if last else ledger.began) - ledger.began,
        reason="" if standing.stage is JobStage.SUCCEEDED else standing.why or str(standing.stage),
        cluster=pool.cluster,
    )


# Plan tasks over clusters: each is a job of the recipe `command`, and each mode has its own command.
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_STEM_LENGTH = 40  # of a job's name: the time follows, so that each orchestration has its own jobs


def plan_there(
    tasks: Sequence[Task],
    clusters: Sequence[TaskCluster],
    code: PackedProject,
    *,
    began: float,
    time_limit: float,
) -> Plan:
    """Plan the tasks over the clusters from their strategies there."""
    source = f"/{code.digest}.tar.gz"  # without a bucket: _completed_in adds it
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
        settings = {name: str(value) for name, value in strategy.parameters.items()}
        command = task_settings(TRAIN, task.describe(), settings, source)["command"]
        yield Mode(
            technique=strategy.technique,
            type=cluster.pool.type,
            devices=cluster.nodes_of(devices),
            seconds=max(1, math.ceil(strategy.runtime)),
            source=strategy.source,
            error=strategy.error,
            settings=(("command", command),),
        )


def _job_name(name: str, began: float) -> str:
    stem = _NO_NAME.sub("-", name).strip("-_")[:_STEM_LENGTH] or "task"
    return f"{stem}-{int(began):x}"


def _completed_in(there: TasksThere, made: Plan) -> Callable[[Job, Target], Job]:
    """Return what completes a job with what depends on its cluster: where its code and checkpoints lie."""
    tasks = {task.name: task for task in there.tasks}
    keys = {each.job.name: checkpoints_key(tasks[each.name]) for each in made.jobs if each.job}
    ranks = {cluster.name: cluster.ranks_per_node for cluster in there.clusters}

    def completed(job: Job, target: Target) -> Job:
        digest = job.settings["source"].rpartition("/")[2].partition(".")[0]
        return replace(
            job,
            settings={**job.settings, "source": project_url(digest, target)},
            checkpoints=checkpoints_url(keys[job.name], target),
            processes_per_node=ranks[target.name],
        )

    return completed
