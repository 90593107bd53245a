"""Jobs as DescribeJobs and ListJobs show them. To add a member: a line in the function of its kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import client_exception
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.batch import job_store
from slipway.yard.services.batch.job_store import BatchJob, JobAttempt, NodeRun
from slipway.yard.services.recorded import paged

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
    return dict(moto_backend("batch", job.region).list_tags_for_resource(job.arn))


def _basics(job: BatchJob) -> View:
    return {
        "jobArn": job.arn,
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

    run = _last(job, node)
    found = {**containers(job)[node], **_outcome(run)}
    if run is not None:
        cluster = job.attempts[-1].environment.rpartition("/")[2] + "_Batch"
        place = f"container-instance/{cluster}/{run.task_id}"
        found["containerInstanceArn"] = f"arn:aws:ecs:{job.region}:{ACCOUNT}:{place}"
    return found


def _outcome(run: NodeRun | None) -> View:
    """Return how the container ended; if its host was lost, nothing is known."""
    if run is None:
        return {}
    return _present({"exitCode": run.exit_code, "reason": run.reason, "logStreamName": run.stream or None})


def _attempt(attempt: JobAttempt, job: BatchJob, node: int | None) -> View:
    """Return the attempt; for a multi-node job only its nodes, not the job, show a container."""
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


def _last(job: BatchJob, node: int) -> NodeRun | None:
    return job.attempts[-1].nodes[node] if job.attempts else None


def _node_place(job: BatchJob, node: int) -> View:
    return {"nodeIndex": node, "isMainNode": node == job.main_node}


def _id(job: BatchJob, node: int | None) -> str:
    return job.id if node is None else f"{job.id}#{node}"


def _present(found: View) -> View:
    return {name: value for name, value in found.items() if value is not None}


# ListJobs, by state or by filters. To add a filter: a line of _FILTERS. Source: the API reference of
# ListJobs: filters ignore the state; without state and filters it lists RUNNING jobs.
LARGEST_PAGE = 100


def list_jobs(parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    with job_store.changed:
        page = paged("jobSummaryList", list(_listed(parameters, region)), parameters, size=LARGEST_PAGE)
        return {**page, "jobSummaryList": [summary(*each) for each in page["jobSummaryList"]]}


def _listed(parameters: Mapping[str, Any], region: str) -> Iterator[tuple[BatchJob, int | None]]:
    """Yield what is listed: jobs, and nodes of one."""
    status = parameters.get("jobStatus", "RUNNING")
    if parameters.get("multiNodeJobId"):
        job = _required(parameters["multiNodeJobId"])
        yield from ((job, node) for node in range(job.nodes) if job.status == status)
    elif parameters.get("arrayJobId"):
        children = _required(parameters["arrayJobId"]).children
        yield from ((child, None) for child in children if child.status == status)
    else:
        yield from ((job, None) for job in _of_queue(parameters, region, status))


def _of_queue(parameters: Mapping[str, Any], region: str, status: str) -> Iterator[BatchJob]:
    """Yield the queue's jobs of this status, the newest first."""
    wanted_queue = parameters.get("jobQueue", "")
    queue = moto_backend("batch", region).get_job_queue(wanted_queue)
    if queue is None:
        raise client_exception(f"Job queue {wanted_queue or '(none)'} does not exist")
    filters = parameters.get("filters") or ()
    for job in reversed(job_store.jobs.values()):
        if job.region != region or job.parent or job.queue != str(queue.arn):
            continue
        if all(_passes(job, wanted) for wanted in filters) and (filters or job.status == status):
            yield job


def _passes(job: BatchJob, given: Mapping[str, Any]) -> bool:
    test = _FILTERS.get(given.get("name", ""))
    if test is None:
        raise client_exception(f"filter {given.get('name')} is none of {', '.join(_FILTERS)}")
    return any(test(job, value) for value in given.get("values", ()))


def like(text: str, pattern: str) -> bool:
    """Match as Batch does: case-insensitively; a star at the end matches anything."""
    text, pattern = text.lower(), pattern.lower()
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def _is_of_definition(job: BatchJob, pattern: str) -> bool:
    arn = job.definition["jobDefinitionArn"]
    revision = arn.rpartition("/")[2]
    return any(like(text, pattern) for text in (arn, revision, revision.partition(":")[0]))


def _required(job_id: str) -> BatchJob:
    job = job_store.find(job_id)
    if job is None:
        raise client_exception(f"Job {job_id} does not exist")
    return job


_FILTERS: Mapping[str, Callable[[BatchJob, str], bool]] = {
    "JOB_NAME": lambda job, value: like(job.name, value),
    "JOB_DEFINITION": _is_of_definition,
    "BEFORE_CREATED_AT": lambda job, value: job.created_at < int(value),
    "AFTER_CREATED_AT": lambda job, value: job.created_at > int(value),
    "SHARE_IDENTIFIER": lambda job, value: like(job.submit.get("shareIdentifier", ""), value),
}
