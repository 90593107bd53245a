"""The EC2 instances of a job's nodes: Batch launches them before a job can start, and they are billed.

An instance counts as a node once its agent has registered with ECS. If one never does, the job keeps waiting,
and the instance stays: Batch terminates it only when no job waits for it. `slipway yard faults add ecs
RegisterContainerInstance server-error` causes that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.gateway import faults
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.batch import task_roles
from slipway.yard.services.batch.job_store import BatchJob

# User guide, "Jobs stuck in RUNNABLE with undetermined root cause": no action can be configured for it.
UNDETERMINED = "UNDETERMINED - Batch job is blocked, root cause is undetermined."
DEFAULT_TYPE = "m5.large"  # one of the types that Batch chooses from for "optimal"


def launch(job: BatchJob, environment: Any) -> str | None:
    """Launch an instance for each node; return Batch's reason if the job has to keep waiting."""
    from moto.ec2.exceptions import EC2ClientError

    resources: Mapping[str, Any] = environment.compute_resources or {}
    if str(resources.get("type", "FARGATE")).startswith("FARGATE"):
        return None  # Fargate
    if not job.instances:
        try:
            job.instances = _run(job.nodes, environment, job.region)
        except EC2ClientError:  # above the quota, which Batch does not report
            return UNDETERMINED
        struck = faults.next_for("ecs", "RegisterContainerInstance") is not None
        job.has_silent_agents = struck or not task_roles.joins_ecs(environment, job.region)
    return UNDETERMINED if job.has_silent_agents else None


def terminate(job: BatchJob) -> None:
    """Terminate the instances, as Batch does when no job waits for them."""
    gone, job.instances, job.has_silent_agents = job.instances, [], False
    if gone:
        _terminate(gone, job.region)


def instance_of(job: BatchJob, node: int) -> str:
    return job.instances[node] if job.instances else ""


def lose(job: BatchJob, node: int) -> None:
    """Terminate the instance of one node, and forget it."""
    if node < len(job.instances):
        _terminate([job.instances[node]], job.region)


def _terminate(identifiers: list[str], region: str) -> None:
    """Terminate those that still exist: unlike AWS, moto fails if it is repeated."""
    backend = moto_backend("ec2", region)
    left = [
        instance.id
        for instance in backend.all_instances()
        if instance.id in identifiers and instance.state == "running"
    ]
    if left:
        backend.terminate_instances(left)


def _run(count: int, environment: Any, region: str) -> list[str]:
    resources: Mapping[str, Any] = environment.compute_resources or {}
    backend = moto_backend("ec2", region)
    data = _template(backend, resources.get("launchTemplate"))
    interfaces = data.get("NetworkInterfaces") or [{}]
    named = resources.get("instanceTypes") or ["optimal"]
    subnets = resources.get("subnets") or [None]
    configured = [each.get("imageIdOverride") for each in resources.get("ec2Configuration") or ()]
    images = filter(None, [*configured, resources.get("imageId"), data.get("ImageId")])
    tags = {
        tag["Key"]: tag["Value"]
        for specification in data.get("TagSpecifications") or ()
        if specification["ResourceType"] == "instance"
        for tag in specification["Tags"]
    }
    reservation = backend.run_instances(
        str(next(images, "ami-ecs")),
        count,
        None,
        [],
        instance_type=DEFAULT_TYPE if named[0] == "optimal" else named[0],
        is_instance_type_default=False,
        region_name=region,
        subnet_id=subnets[0],
        nics=[{"DeviceIndex": 0, "DeleteOnTermination": True}] if subnets[0] else [],
        security_group_ids=resources.get("securityGroupIds") or interfaces[0].get("Groups") or [],
        tags={"instance": {**tags, **resources.get("tags", {})}},
        instance_market_options="spot" if resources.get("type") == "SPOT" else {},
    )
    return [instance.id for instance in reservation.instances]


def _template(backend: Any, named: Mapping[str, str] | None) -> Mapping[str, Any]:
    if not named:
        return {}
    by_id = {"LaunchTemplateId": named.get("launchTemplateId"), "Version": named.get("version")}
    by_name = {"LaunchTemplateName": named.get("launchTemplateName"), "Version": named.get("version")}
    asked = {key: value for key, value in (by_id if by_id["LaunchTemplateId"] else by_name).items() if value}
    return dict(backend._get_template_from_args(asked).data)
