"""SubmitJob: a job, or an array of them, from a deployed definition, with what AWS refuses refused."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Mapping
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.machines import memory
from slipway.yard.services.batch import capacity, job_store, overrides, scheduler
from slipway.yard.services.batch.api import definitions, views
from slipway.yard.services.batch.job_store import BatchJob

Parameters = Mapping[str, Any]


def submit(parameters: Parameters, region: str) -> BatchJob:
    definition = _definition(parameters["jobDefinition"], region)
    _refuse_mismatch(parameters, definition)
    job = _job(parameters, definition, _queue(parameters["jobQueue"], region), region)
    _refuse_unknown_dependencies(parameters)
    if problem := memory.promises.refusal(capacity.memory_need(job)):
        raise ApiError("ClientException", problem)
    if size := (parameters.get("arrayProperties") or {}).get("size"):
        job.children = [_child(job, index) for index in range(size)]
    _tag(job)
    with job_store.changed:
        for each in (job, *job.children):
            job_store.jobs[each.id] = each
        job_store.changed.notify_all()
    scheduler.ensure_running()
    return job


def _definition(wanted: str, region: str) -> dict[str, Any]:
    found = definitions.find(wanted, region)
    if found is None or found["status"] != "ACTIVE":
        raise ApiError("ClientException", f"JobDefinition {wanted} does not exist or is not active")
    return found


def _queue(wanted: str, region: str) -> str:
    from moto.batch.models import batch_backends

    queue = batch_backends[ACCOUNT][region].get_job_queue(wanted)
    if queue is None:
        raise ApiError("ClientException", f"JobQueue {wanted} not found")
    if queue.state != "ENABLED":
        raise ApiError("ClientException", f"JobQueue {wanted} is disabled and takes no jobs")
    return str(queue.arn)


def _refuse_mismatch(parameters: Parameters, definition: Parameters) -> None:
    is_multinode = "nodeProperties" in definition
    wrong = "containerOverrides" if is_multinode else "nodeOverrides"
    if parameters.get(wrong):
        kind = "multi-node" if is_multinode else "single-node"
        raise ApiError("ClientException", f"{wrong} cannot be given for a {kind} job definition")
    if is_multinode and parameters.get("arrayProperties"):
        raise ApiError("ClientException", "a multi-node parallel job cannot be an array job")
    if not is_multinode and "containerProperties" not in definition:
        raise ApiError(
            "NotImplemented", "the yard runs containerProperties and nodeProperties only", status=501
        )


def _refuse_unknown_dependencies(parameters: Parameters) -> None:
    for each in parameters.get("dependsOn") or ():
        if each.get("jobId") and job_store.find(each["jobId"]) is None:
            raise ApiError(
                "ClientException", f"Job {each['jobId']}, on which this one depends, does not exist"
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


def _tag(job: BatchJob) -> None:
    from moto.batch.models import batch_backends

    if given := job.submit.get("tags"):
        batch_backends[ACCOUNT][job.region].tag_resource(views.arn(job), given)
