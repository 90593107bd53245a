"""Jobs as DescribeJobs and ListJobs show them. A further member is a line in the function of its kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.services.batch.job_store import BatchJob, JobAttempt, NodeRun

View = dict[str, Any]
ALL_STATES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")


def detail(job: BatchJob, node: int | None = None) -> View:
    """Return DescribeJobs' details of the whole job, or of one of its nodes."""
    found = {
        **_basics(job),
        "jobId": _id(job, node),
        "jobQueue": job.queue,
        "attempts": [_attempt(attempt, job, node) for attempt in job.attempts if attempt.stopped_at],
        "retryStrategy": job.retry_strategy,
        "dependsOn": job.submit.get("dependsOn", []),
        "parameters": {**job.definition.get("parameters", {}), **(job.submit.get("parameters") or {})},
        "tags": tags(job),
        "propagateTags": job.submit.get("propagateTags", job.definition.get("propagateTags", False)),
        "platformCapabilities": job.definition.get("platformCapabilities", []),
        "isCancelled": job.is_cancelled,
        "isTerminated": job.is_terminated,
        "schedulingPriority": job.submit.get("schedulingPriorityOverride"),
        "shareIdentifier": job.submit.get("shareIdentifier"),
    }
    if job.timeout_seconds:
        found["timeout"] = {"attemptDurationSeconds": job.timeout_seconds}
    return _present({**found, **_of_kind(job, node)})


def summary(job: BatchJob, node: int | None = None) -> View:
    found = {**_basics(job), "jobId": _id(job, node)}
    if node is not None:
        found["nodeProperties"] = _node_place(job, node)
        found["container"] = _outcome(_last(job, node))
    elif job.node_properties:
        found["nodeProperties"] = {"numNodes": job.nodes}
    elif job.children:
        found["arrayProperties"] = {"size": len(job.children)}
    else:
        found["container"] = _outcome(_last(job, 0))
        found["arrayProperties"] = None if job.index is None else {"index": job.index}
    return _present(found)


def tags(job: BatchJob) -> Mapping[str, str]:
    from moto.batch.models import batch_backends

    return dict(batch_backends[ACCOUNT][job.region].list_tags_for_resource(arn(job)))


def arn(job: BatchJob) -> str:
    return f"arn:aws:batch:{job.region}:{ACCOUNT}:job/{job.id}"


def _basics(job: BatchJob) -> View:
    return {
        "jobArn": arn(job),
        "jobName": job.name,
        "jobDefinition": job.definition["jobDefinitionArn"],
        "status": job.status,
        "statusReason": job.status_reason,
        "createdAt": job.created_at,
        "startedAt": job.started_at,
        "stoppedAt": job.stopped_at,
    }


def _of_kind(job: BatchJob, node: int | None) -> View:
    if node is not None:
        return {"nodeDetails": _node_place(job, node), "container": _container(job, node)}
    if job.node_properties:
        return {"nodeProperties": job.node_properties}
    if job.children:
        counts = Counter(child.status for child in job.children)
        states = {state: counts[state] for state in ALL_STATES}
        size = {"size": len(job.children), "statusSummary": states}
        return {"arrayProperties": size, "container": job.container}
    place = None if job.index is None else {"index": job.index}
    return {"arrayProperties": place, "container": _container(job, 0)}


def _container(job: BatchJob, node: int) -> View:
    from slipway.yard.services.batch.capacity import containers

    return {**containers(job)[node], **_outcome(_last(job, node)), **_environment(job)}


def _environment(job: BatchJob) -> View:
    return {"containerInstanceArn": _cluster(job, "container-instance")} if job.attempts else {}


def _outcome(run: NodeRun | None) -> View:
    """Return how the container ended; of a lost host no more is known than that."""
    if run is None:
        return {}
    return _present({"exitCode": run.exit_code, "reason": run.reason, "logStreamName": run.stream or None})


def _attempt(attempt: JobAttempt, job: BatchJob, node: int | None) -> View:
    """Return the attempt; that of a multi-node job has no container, for each node shows its own."""
    found: View = {
        "startedAt": attempt.started_at,
        "stoppedAt": attempt.stopped_at,
        "statusReason": attempt.status_reason,
        "container": {"networkInterfaces": []},
    }
    if node is not None or not job.node_properties:
        run = attempt.nodes[node or 0]
        task = f"arn:aws:ecs:{job.region}:{ACCOUNT}:task/{run.task_id}"
        found["container"] |= {**_outcome(run), "taskArn": task}
        found["startedAt"] = run.started_at
    return _present(found)


def _cluster(job: BatchJob, kind: str) -> str:
    return f"arn:aws:ecs:{job.region}:{ACCOUNT}:{kind}/{job.attempts[-1].nodes[0].task_id}"


def _last(job: BatchJob, node: int) -> NodeRun | None:
    return job.attempts[-1].nodes[node] if job.attempts else None


def _node_place(job: BatchJob, node: int) -> View:
    return {"nodeIndex": node, "isMainNode": node == job.main_node}


def _id(job: BatchJob, node: int | None) -> str:
    return job.id if node is None else f"{job.id}#{node}"


def _present(found: View) -> View:
    return {name: value for name, value in found.items() if value is not None}
