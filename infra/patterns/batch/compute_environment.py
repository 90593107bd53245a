"""The Batch compute environment of a cluster and the queue before it.

L1: the L2 adds a security group, which overrides the launch template's, and drops the template's version.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from aws_cdk import aws_batch as batch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.declare.types import BatchCluster
from slipway.infra.patterns.access.roles import ServiceRole
from slipway.infra.patterns.nodes.launch_template import NodeTemplate
from slipway.infra.patterns.nodes.markets import purchase
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.names import derived_name, stack_name

_LONGEST_UPDATE_WAIT = timedelta(hours=6)
_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolProps:
    cluster: BatchCluster
    subnet_id: str
    image_id: str
    template: NodeTemplate
    node_role: ServiceRole


class NodePool(Construct):
    """Runs zero to max_nodes nodes of one type in one subnet. BEST_FIT_PROGRESSIVE may start one more.

    Unnamed, without a service role and not replaced: so CloudFormation updates it in place (AWS Batch user
    guide, "Update a compute environment"), and a changed template or image reaches new nodes only.
    """

    def __init__(self, scope: Construct, id: str, *, props: NodePoolProps) -> None:
        super().__init__(scope, id)
        profile = iam.CfnInstanceProfile(self, "InstanceProfile", roles=[props.node_role.role.role_name])
        self.resource = batch.CfnComputeEnvironment(
            self,
            "Resource",
            type="MANAGED",
            state="ENABLED",
            replace_compute_environment=False,
            compute_resources=_compute_resources(self, props, profile),
            update_policy=batch.CfnComputeEnvironment.UpdatePolicyProperty(
                terminate_jobs_on_update=False,
                job_execution_timeout_minutes=min(props.cluster.job_timeout, _LONGEST_UPDATE_WAIT) // _MINUTE,
            ),
        )
        # Batch starts nodes as soon as there is a job, and they join ECS only with their permissions in
        # place.
        self.resource.node.add_dependency(props.node_role.policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQueueProps:
    cluster: BatchCluster
    pool: NodePool


class JobQueue(Construct):
    def __init__(self, scope: Construct, id: str, *, props: JobQueueProps) -> None:
        super().__init__(scope, id)
        self.resource = batch.CfnJobQueue(
            self,
            "Resource",
            job_queue_name=job_queue_name(props.cluster.name),
            priority=1,
            state="ENABLED",
            compute_environment_order=[
                batch.CfnJobQueue.ComputeEnvironmentOrderProperty(
                    order=1, compute_environment=props.pool.resource.attr_compute_environment_arn
                )
            ],
            job_state_time_limit_actions=[
                batch.CfnJobQueue.JobStateTimeLimitActionProperty(
                    action="CANCEL",  # the only one for queues on ECS
                    max_time_seconds=props.cluster.runnable_timeout // _SECOND,
                    reason=reason,
                    state="RUNNABLE",
                )
                for reason in TIME_LIMIT_REASONS
            ],
        )


# All that Batch acts on for ECS (user guide, "Automatic remediation with jobStateTimeLimitActions").
# Without this the first job that cannot start blocks the queue for good.
TIME_LIMIT_REASONS = (
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
)


def job_queue_name(cluster: str) -> str:
    return derived_name("batch", cluster)


def _compute_resources(
    scope: Construct, props: NodePoolProps, profile: iam.CfnInstanceProfile
) -> batch.CfnComputeEnvironment.ComputeResourcesProperty:
    cluster = props.cluster
    return batch.CfnComputeEnvironment.ComputeResourcesProperty(
        type="EC2",
        allocation_strategy="BEST_FIT_PROGRESSIVE",
        instance_types=[cluster.instance_type],
        minv_cpus=0,
        maxv_cpus=cluster.max_nodes * instance_type(cluster.instance_type).vcpus,
        subnets=[props.subnet_id],
        placement_group=_placement_group(scope, props),
        instance_role=profile.attr_arn,
        launch_template=batch.CfnComputeEnvironment.LaunchTemplateSpecificationProperty(
            launch_template_id=props.template.resource.ref, version=props.template.version
        ),
        ec2_configuration=[
            batch.CfnComputeEnvironment.Ec2ConfigurationObjectProperty(
                image_type="ECS_AL2023",  # how Batch writes its part of the user data
                image_id_override=props.image_id,
            )
        ],
        update_to_latest_image_version=False,
        tags={"Name": stack_name(cluster.name), **cluster.billing_tags},
    )


def _placement_group(scope: Construct, props: NodePoolProps) -> str | None:
    if not purchase(props.cluster).in_placement_group:
        return None
    return ec2.CfnPlacementGroup(scope, "PlacementGroup", strategy="cluster").ref
