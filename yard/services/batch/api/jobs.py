"""The API of Batch's jobs, which run as processes. To add an operation: a function and its line below."""

from __future__ import annotations

import atexit
import copy
import uuid
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from slipway.yard.errors import ApiError, client_exception
from slipway.yard.machines import memory, storage
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.batch import capacity, job_store, overrides, scheduler
from slipway.yard.services.batch.api import definitions, views
from slipway.yard.services.batch.job_store import WAITING, BatchJob

Parameters = Mapping[str, Any]

END_TIMEOUT_S = 10.0


def reset() -> None:
    """End every process of every job, and delete the jobs' folders."""
    with job_store.changed:
        for job in job_store.jobs.values():
            scheduler.stop(job, "the yard was reset")
        job_store.changed.wait_for(_have_all_ended, END_TIMEOUT_S)
        job_store.jobs.clear()
        job_store.changed.notify_all()
    storage.forget()


def _have_all_ended() -> bool:
    """Return True once no job runs; kill jobs that were starting before and have processes now."""
    left = [job for job in job_store.jobs.values() if job.attempts and not job.is_final]
    for job in left:
        if job.running:
            job.running.kill_all()
    return not left


def kill_node(text: str, node: int) -> str:
    """Kill the node as a power failure would, and return the name of its job."""
    with job_store.changed:
        # Find the one running job whose id or name is or begins with `text`.
        running = [job for job in job_store.jobs.values() if job.running]
        exact = [job for job in running if text in (job.id, job.name)]
        found = exact or [
            job for job in running if text and (job.id.startswith(text) or job.name.startswith(text))
        ]
        if len(found) != 1:
            known = ", ".join(f"{job.name} ({job.id})" for job in running) or "none"
            raise ValueError(
                f"'{text}' matches {len(found)} running jobs of Batch, MPI, Slurm or SageMaker; "
                f"of Batch run: {known}"
            )
        job = found[0]
        if not 0 <= node < job.nodes:
            raise ValueError(f"job {job.name} has no node {node}; it has 0 to {job.nodes - 1}")
        assert job.running
        job.running.kill(node)
        return job.name


@lru_cache(maxsize=1)
def _end_with_the_yard() -> None:
    atexit.register(reset)


def _submit(parameters: Parameters, region: str) -> dict[str, Any]:
    """Submit a job, or an array of jobs, from a deployed definition; refuse what AWS refuses."""
    _end_with_the_yard()
    wanted = parameters["jobDefinition"]
    definition = definitions.find(wanted, region)
    if definition is None or definition["status"] != "ACTIVE":
        raise client_exception(f"JobDefinition {wanted} does not exist or is not active")
    _refuse_mismatch(parameters, definition)
    queue = moto_backend("batch", region).get_job_queue(parameters["jobQueue"])
    if queue is None:
        raise client_exception(f"JobQueue {parameters['jobQueue']} not found")
    if queue.state != "ENABLED":
        raise client_exception(f"JobQueue {parameters['jobQueue']} is disabled and takes no jobs")
    job = _job(parameters, definition, str(queue.arn), region)
    for dependency in parameters.get("dependsOn") or ():
        if dependency.get("jobId") and job_store.find(dependency["jobId"]) is None:
            raise client_exception(f"Job {dependency['jobId']}, on which this one depends, does not exist")
    if problem := memory.promises.refusal(capacity.memory_need(job)):
        raise client_exception(problem)
    if size := (parameters.get("arrayProperties") or {}).get("size"):
        job.children = [_child(job, index) for index in range(size)]
    if given := job.submit.get("tags"):
        moto_backend("batch", job.region).tag_resource(job.arn, given)
    with job_store.changed:
        for member in (job, *job.children):
            job_store.jobs[member.id] = member
        job_store.changed.notify_all()
    scheduler.ensure_running()
    return {"jobId": job.id, "jobName": job.name, "jobArn": job.arn}


def _refuse_mismatch(parameters: Parameters, definition: Parameters) -> None:
    is_multinode = "nodeProperties" in definition
    wrong = "containerOverrides" if is_multinode else "nodeOverrides"
    if parameters.get(wrong):
        kind = "multi-node" if is_multinode else "single-node"
        raise client_exception(f"{wrong} cannot be given for a {kind} job definition")
    if is_multinode and parameters.get("arrayProperties"):
        raise client_exception("a multi-node parallel job cannot be an array job")
    if not is_multinode and "containerProperties" not in definition:
        name = f"{definition.get('jobDefinitionName')}:{definition.get('revision')}"
        raise ApiError(
            "NotImplemented",
            f"the yard does not run the job definition {name}: give it containerProperties or nodeProperties",
            status=501,
        )


def _job(parameters: Parameters, definition: dict[str, Any], queue: str, region: str) -> BatchJob:
    is_multinode = "nodeProperties" in definition
    return BatchJob(
        id=str(uuid.uuid4()),
        region=region,
        name=parameters["jobName"],
        queue=queue,
        definition=definition,
        submit=copy.deepcopy(dict(parameters)),
        created_at=job_store.now_ms(),
        node_properties=overrides.node_properties(definition, parameters) if is_multinode else None,
        container=None if is_multinode else overrides.single_container(definition, parameters),
    )


def _child(parent: BatchJob, index: int) -> BatchJob:
    return BatchJob(
        id=f"{parent.id}:{index}",
        region=parent.region,
        name=parent.name,
        queue=parent.queue,
        definition=parent.definition,
        submit=parent.submit,
        created_at=parent.created_at,
        container=parent.container,
        parent=parent,
        index=index,
    )


def _describe(parameters: Parameters, region: str) -> dict[str, Any]:
    with job_store.changed:
        return {"jobs": [view for job in parameters["jobs"] for view in _view(job, region)]}


def _view(wanted: str, region: str) -> list[dict[str, Any]]:
    """Return a list with the details of a job or node; empty if it does not exist."""
    identifier, _, node = wanted.rpartition("/")[2].partition("#")
    job = job_store.find(identifier)
    if job is None or job.region != region:
        return []
    if not node:
        return [views.detail(job)]
    exists = job.node_properties is not None and node.isdecimal() and int(node) < job.nodes
    return [views.detail(job, int(node))] if exists else []


def _cancel(parameters: Parameters, _region: str) -> dict[str, Any]:
    """Cancel a job; one that is starting or running already continues, without an error."""
    job_id, reason = _required(parameters, "jobId"), _required(parameters, "reason")
    with job_store.changed:
        job = job_store.find(job_id)
        if job and job.status in WAITING and not any(child.running for child in job.children):
            job.is_cancelled = True
            scheduler.stop(job, reason)
    return {}


def _terminate(parameters: Parameters, _region: str) -> dict[str, Any]:
    job_id, reason = _required(parameters, "jobId"), _required(parameters, "reason")
    with job_store.changed:
        job = job_store.find(job_id)
        if job and not job.is_final:
            job.is_terminated = True
            scheduler.stop(job, reason)
    return {}


def _required(parameters: Parameters, member: str) -> str:
    if not parameters.get(member):
        raise client_exception(f"{member} must not be empty")
    return str(parameters[member])


OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "CancelJob": _cancel,
    "DescribeJobs": _describe,
    "ListJobs": views.list_jobs,
    "SubmitJob": _submit,
    "TerminateJob": _terminate,
}
