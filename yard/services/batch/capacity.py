"""Finds where a job can run now, or why it cannot, in AWS Batch's words.

Source of the words: user guide, "Jobs stuck in a RUNNABLE status". To add a reason: a line of _REFUSALS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slipway.containers.runtime.contract import variables
from slipway.jobs.words.catalogue.instances import InstanceType, find_instance_type
from slipway.yard.chaos import conditions
from slipway.yard.gateway import faults
from slipway.yard.machines.memory import Need
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.batch import job_store, overrides
from slipway.yard.services.batch.job_store import BatchJob

PROCESSES_VARIABLE = variables.PROCESSES_PER_NODE
INVALID = "ACTION_REQUIRED - CE(s) associated with the job queue are invalid."
TOO_LARGE = (
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - "
    "CE(s) associated with the job queue cannot meet the CPU requirement of the job."
)
NO_SUCH_INSTANCE = (
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job resource requirement (vCPU/memory/GPU) is higher "
    "than that can be met by the CE(s) attached to the job queue."
)
NO_CAPACITY = (
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - "
    "Service cannot fulfill the capacity requested for instance type [{}]"
)
# The memory that the ECS agent registers for a type without a figure in the catalogue: of 8 GiB 7,679 MiB
# (aws/amazon-ecs-agent#3331: c6i.xlarge), of 32 GiB 31,672 (ASFHyP3/hyp3#582), of 512 GiB 507,821.
_REGISTERED_SHARE, _FIXED_MIB = 0.969, 259


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """An environment, or a reason why there is none, or neither: other jobs use all capacity."""

    environment: Any = None  # moto's object
    reason: str | None = None


def place(job: BatchJob) -> Placement:
    environments = [
        environment for environment in queue_of(job).environments if environment.state == "ENABLED"
    ]
    for refusal, fits in _REFUSALS:
        environments = [environment for environment in environments if fits(job, environment)]
        if not environments:
            return Placement(reason=refusal)
    free = [
        environment
        for environment in environments
        if vcpus(job) <= _most(environment) - _used(environment.arn)
    ]
    if not free:
        return Placement()
    kind = (free[0].compute_resources.get("instanceTypes") or ["optimal"])[0]
    # Batch launches instances of EC2; a scripted fault of this call keeps the job waiting.
    struck = faults.next_for("ec2", "RunInstances")
    if conditions.lacks_capacity(kind) or (struck and struck.kind is faults.FaultKind.INSUFFICIENT_CAPACITY):
        return Placement(reason=NO_CAPACITY.format(kind))
    return Placement(environment=None if struck else free[0])


def queue_of(job: BatchJob) -> Any:
    """Return moto's queue of the job; None if it was deleted."""
    return moto_backend("batch", job.region).get_job_queue(job.queue)


def vcpus(job: BatchJob) -> int:
    """Return the vCPUs of all nodes together."""
    return sum(overrides.resource(container, "VCPU", "vcpus") for container in containers(job))


def memory_need(job: BatchJob) -> Need:
    """Return the job's need of this machine's memory; a node without a launcher counts as one process."""
    found = containers(job)
    return Need(nodes=len(found), ranks=sum(map(_ranks, found)))


def containers(job: BatchJob) -> list[Mapping[str, Any]]:
    """Return the container of each node."""
    if job.node_properties is None:
        return [job.container or {}]
    return [overrides.container_of_node(job.node_properties, job.submit, node) for node in range(job.nodes)]


def _ranks(container: Mapping[str, Any]) -> int:
    given = {variable["name"]: variable.get("value", "") for variable in container.get("environment", ())}
    processes = given.get(PROCESSES_VARIABLE, "")
    return int(processes) if processes.isdecimal() else 0


def _most(environment: Any) -> int:
    return int((environment.compute_resources or {}).get("maxvCpus", 0))


def _used(environment_arn: str) -> int:
    busy = (job for job in job_store.jobs.values() if job.status in ("STARTING", "RUNNING") and job.attempts)
    return sum(vcpus(job) for job in busy if job.attempts[-1].environment == environment_arn)


def _has_instance(job: BatchJob, environment: Any) -> bool:
    """Return True if one of the instance types is large enough; unknown types count as large enough."""
    names: Iterable[str] = (environment.compute_resources or {}).get("instanceTypes") or ["optimal"]
    known = [find_instance_type(name) for name in names]
    if None in known:
        return True
    needs = [
        (overrides.resource(container, "VCPU", "vcpus"), overrides.resource(container, "MEMORY", "memory"))
        for container in containers(job)
    ]
    return any(
        all(fits(each, vcpus=cpus, memory_mib=memory_mib) for cpus, memory_mib in needs)
        for each in known
        if each is not None
    )


def fits(kind: InstanceType, *, vcpus: int, memory_mib: int) -> bool:
    """Return True if the container fits on an empty instance, by the memory that its ECS agent registers."""
    registered = kind.registered_memory_mib or int(kind.memory_mib * _REGISTERED_SHARE) - _FIXED_MIB
    return vcpus <= kind.vcpus and memory_mib <= registered


_REFUSALS: tuple[tuple[str, Callable[[BatchJob, Any], bool]], ...] = (
    (INVALID, lambda _job, environment: not getattr(environment, "invalid_reason", "")),
    (TOO_LARGE, lambda job, environment: vcpus(job) <= _most(environment)),
    (NO_SUCH_INSTANCE, _has_instance),
)
