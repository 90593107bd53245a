"""`orchestrate(tasks, on=[…])`: plan tasks over deployed clusters, and run that plan as run-plan runs one.

The plan and its journal lie beside the trained models until all has ended: the same file, started again, goes
on with them and submits nothing twice.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.jobs.cloud import aws
from slipway.jobs.code.packing import PackedProject
from slipway.jobs.plan.inputs.plan_json import encode_plan, read_plan
from slipway.jobs.plan.run.clusters import ClusterExecutor
from slipway.jobs.plan.run.journal import PlanJournal
from slipway.jobs.plan.run.ledger import JobStage, Ledger, Stint
from slipway.jobs.plan.run.running import PlanRun, PlanWorld
from slipway.jobs.plan.search.baselines import greedy
from slipway.jobs.plan.search.model import Assignment, Plan
from slipway.jobs.plan.tasks.on_clusters.brought_back import bring_back
from slipway.jobs.plan.tasks.on_clusters.places import ClusterOrder, TaskCluster, find_clusters
from slipway.jobs.plan.tasks.on_clusters.planned import InBucket, plan_there
from slipway.jobs.plan.tasks.on_clusters.searching_there import search_there
from slipway.jobs.plan.tasks.on_clusters.sent_code import named_tasks, packed_code, send_code
from slipway.jobs.plan.tasks.results import Orchestration, TaskEnd, is_trained, mark_trained, refuse_failures
from slipway.jobs.plan.tasks.task import Task
from slipway.jobs.platforms.whole_files import write_whole
from slipway.jobs.words.cost import Agreed
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import Say

LOOK_SECONDS, YARD_LOOK_SECONDS = 15.0, 1.0
SWITCH_SECONDS = 300
_DIGEST_LENGTH = 12


class TooDear(SlipwayError):
    """Reports a plan that may cost more than was agreed to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksThere:
    """Hold the tasks of one orchestration, where they go, and where its plan is kept."""

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
    """Search where no search was, and write a plan that costs no more than was agreed to."""
    waiting = [task for task in there.tasks if not is_trained(task)]
    unknown = [
        task for task in waiting if not any(task.strategies_at(cluster.name) for cluster in there.clusters)
    ]
    if unknown:
        search_there(unknown, None, there.clusters, code, there.order.agreed, there.say)
    made = plan_there(waiting, there.clusters, code, began=time.time(), time_limit=time_limit)
    _refuse_dear(made, there.order.agreed)
    write_whole(there.plan_file, encode_plan(made))


def _refuse_dear(made: Plan, agreed: Agreed) -> None:
    unpriced = [pool.cluster for pool in made.pools if not pool.price_per_hour]
    if aws.is_in_yard() or (agreed.is_unknown_fine if unpriced else made.dollars <= agreed.usd):
        return
    if unpriced:
        amount = f"an amount that is not known (no price of {', '.join(unpriced)})"
        enough = "Agreed(is_unknown_fine=True)"
    else:
        amount, enough = f"about {made.dollars:,.2f} USD", f"Agreed(usd={math.ceil(made.dollars)})"
    raise TooDear(
        f"the plan of these {len(made.jobs)} tasks costs {amount}, and you agreed to {agreed.usd:g} USD",
        hint=f"orchestrate(…, agreed={enough}), with Agreed of slipway.jobs.words.cost",
    )


def _run(there: TasksThere, made: Plan) -> Ledger:
    look = YARD_LOOK_SECONDS if aws.is_in_yard() else LOOK_SECONDS
    journal, kept = PlanJournal(there.journal_file), BroughtBack(there)
    with journal.opened() as events:
        began = events[0].at if events else time.time()
        world = PlanWorld(
            executor=ClusterExecutor(
                pools=made.pools,
                tag=there.plan_file.stem,
                agreed=Agreed(usd=float(sys.maxsize), is_unknown_fine=True),  # the plan was agreed to
                say=there.say,
                complete=InBucket.of(made, there.tasks, there.clusters),
            ),
            journal=journal,
            now=time.time,
            pause=lambda: time.sleep(look),
            solve=greedy,
            switch_seconds=SWITCH_SECONDS,
            began=began,
            say=there.say,
            changed=lambda ledger: kept.look(ledger, made),
        )
        run = PlanRun(made, world, events)
        kept.look(run.ledger, made)
        return run.finish()


@dataclass(frozen=True, slots=True)
class BroughtBack:
    """Bring each task's model back once it is trained."""

    there: TasksThere

    def look(self, ledger: Ledger, made: Plan) -> None:
        targets = {cluster.name: cluster.target for cluster in self.there.clusters}
        for task in self.there.tasks:
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
