"""Batch's job queues. moto keeps them, except for the time limits of job states, which are kept here.

To keep another member that moto drops: a line of KEPT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slipway.yard.errors import client_exception
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.recorded import paged

KEPT = {"jobStateTimeLimitActions": "state_time_limits"}  # member -> attribute of moto's queue

Parameters = Mapping[str, Any]


def call(operation: str, parameters: Parameters, region: str) -> dict[str, Any]:
    from moto.core.exceptions import AWSError

    try:
        return _OPERATIONS[operation](parameters, moto_backend("batch", region))
    except AWSError as error:
        raise client_exception(str(error.message)) from error


def described(queue: Any) -> dict[str, Any]:
    """Return moto's queue as DescribeJobQueues shows it."""
    extra = {member: getattr(queue, attribute, []) for member, attribute in KEPT.items()}
    reason = {"statusReason": "JobQueue Healthy"}
    found = {name: value for name, value in queue.describe().items() if value is not None}
    return {**found, **reason, **extra}


def _create(parameters: Parameters, backend: Any) -> dict[str, Any]:
    queue = backend.create_job_queue(
        queue_name=parameters["jobQueueName"],
        priority=parameters["priority"],
        schedule_policy=parameters.get("schedulingPolicyArn"),
        state=parameters.get("state", "ENABLED"),
        compute_env_order=parameters.get("computeEnvironmentOrder", []),
        tags=parameters.get("tags"),
    )
    _keep(queue, parameters)
    return {"jobQueueName": queue.name, "jobQueueArn": queue.arn}


def _update(parameters: Parameters, backend: Any) -> dict[str, Any]:
    queue = backend.get_job_queue(parameters["jobQueue"])
    if queue is None:
        raise client_exception(f"Job queue {parameters['jobQueue']} does not exist")
    order = parameters.get("computeEnvironmentOrder")
    backend.update_job_queue(
        queue_name=queue.arn,
        priority=parameters.get("priority"),
        state=parameters.get("state"),
        compute_env_order=order and [_by_arn(item, backend) for item in order],
        schedule_policy=parameters.get("schedulingPolicyArn"),
    )
    _keep(queue, parameters)
    return {"jobQueueName": queue.name, "jobQueueArn": queue.arn}


def _delete(parameters: Parameters, backend: Any) -> dict[str, Any]:
    """Delete a disabled queue. As on AWS its jobs are terminated, but DescribeJobs still shows them."""
    queue = backend.get_job_queue(parameters["jobQueue"])
    if queue is not None and queue.state != "DISABLED":
        raise client_exception(f"Cannot delete, job queue {queue.name} is {queue.state}: disable it first")
    backend.delete_job_queue(parameters["jobQueue"])
    return {}


def _describe(parameters: Parameters, backend: Any) -> dict[str, Any]:
    asked = parameters.get("jobQueues")
    queues = [backend.get_job_queue(name) for name in asked] if asked else backend._job_queues.values()
    return paged("jobQueues", [described(queue) for queue in queues if queue], parameters)


def _keep(queue: Any, parameters: Parameters) -> None:
    for member, attribute in KEPT.items():
        if member in parameters:
            setattr(queue, attribute, parameters[member])


def _by_arn(item: Mapping[str, Any], backend: Any) -> Mapping[str, Any]:
    """Return the item with ARNs for names: AWS accepts both, moto's update only ARNs."""
    environment = backend.get_compute_environment(item["computeEnvironment"])
    return {**item, "computeEnvironment": environment.arn} if environment else item


_OPERATIONS: Mapping[str, Callable[[Parameters, Any], dict[str, Any]]] = {
    "CreateJobQueue": _create,
    "DeleteJobQueue": _delete,
    "DescribeJobQueues": _describe,
    "UpdateJobQueue": _update,
}
