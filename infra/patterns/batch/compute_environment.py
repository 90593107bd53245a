"""The Batch compute environment of a cluster, its queue, and the definition of its multi-node jobs.

L1: the L2 adds a security group, which overrides the launch template's, and drops the template's version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta

from aws_cdk import Stack
from aws_cdk import aws_batch as batch
from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.declare.node_images import ami_parameter_of, node_image_of
from slipway.infra.declare.types import BatchCluster
from slipway.infra.patterns.access.roles import ServiceRole
from slipway.infra.patterns.batch.batch_access import NodeAccess
from slipway.infra.patterns.foundation import NodeFoundation
from slipway.infra.patterns.nodes.boot import SCRATCH, ContainerNeeds, container_needs
from slipway.infra.patterns.nodes.launch_template import NodeTemplate, node_image_id
from slipway.infra.patterns.nodes.network_interfaces import efa_interface_count, placement_group
from slipway.infra.patterns.storage.file_systems import SharedFiles
from slipway.jobs.words.catalogue.instances import InstanceType, instance_type
from slipway.jobs.words.names import derived_name, stack_name
from slipway.jobs.words.run import RETRY_RULES

_LONGEST_UPDATE_WAIT = timedelta(hours=6)
_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)


class NodePool(Construct):
    """Runs zero to max_nodes nodes of one type in one subnet. BEST_FIT_PROGRESSIVE may start one more.

    It has no name and no service role and is never replaced, so CloudFormation updates it in place (AWS Batch
    user guide, "Update a compute environment"), and a changed template or image reaches only new nodes.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: BatchCluster,
        subnet_id: str,
        template: NodeTemplate,
        node_role: ServiceRole,
    ) -> None:
        super().__init__(scope, id)
        profile = iam.CfnInstanceProfile(self, "InstanceProfile", roles=[node_role.role.role_name])
        resources = batch.CfnComputeEnvironment.ComputeResourcesProperty(
            type="EC2",
            allocation_strategy="BEST_FIT_PROGRESSIVE",
            instance_types=[cluster.instance_type],
            minv_cpus=0,
            maxv_cpus=cluster.max_nodes * instance_type(cluster.instance_type).vcpus,
            subnets=[subnet_id],
            placement_group=placement_group(self, cluster),
            instance_role=profile.attr_arn,
            launch_template=batch.CfnComputeEnvironment.LaunchTemplateSpecificationProperty(
                launch_template_id=template.resource.ref, version=template.version
            ),
            ec2_configuration=[
                batch.CfnComputeEnvironment.Ec2ConfigurationObjectProperty(
                    image_type=node_image_of(cluster).batch_image_type,
                    image_id_override=node_image_id(Stack.of(self), ami_parameter_of(cluster)),
                )
            ],
            update_to_latest_image_version=False,
            tags={"Name": stack_name(cluster.name), **cluster.billing_tags},
        )
        self.resource = batch.CfnComputeEnvironment(
            self,
            "Resource",
            type="MANAGED",
            state="ENABLED",
            replace_compute_environment=False,
            compute_resources=resources,
            update_policy=batch.CfnComputeEnvironment.UpdatePolicyProperty(
                terminate_jobs_on_update=False,
                job_execution_timeout_minutes=min(cluster.job_timeout, _LONGEST_UPDATE_WAIT) // _MINUTE,
            ),
        )
        # Batch starts nodes as soon as there is a job, and they join ECS only if their permissions exist.
        self.resource.node.add_dependency(node_role.policy)


class JobQueue(Construct):
    def __init__(self, scope: Construct, id: str, *, cluster: BatchCluster, pool: NodePool) -> None:
        super().__init__(scope, id)
        self.resource = batch.CfnJobQueue(
            self,
            "Resource",
            job_queue_name=job_queue_name(cluster.name),
            priority=1,
            state="ENABLED",
            compute_environment_order=[
                batch.CfnJobQueue.ComputeEnvironmentOrderProperty(
                    order=1, compute_environment=pool.resource.attr_compute_environment_arn
                )
            ],
            job_state_time_limit_actions=[
                batch.CfnJobQueue.JobStateTimeLimitActionProperty(
                    action="CANCEL",  # the only action for queues on ECS
                    max_time_seconds=cluster.runnable_timeout // _SECOND,
                    reason=reason,
                    state="RUNNABLE",
                )
                for reason in TIME_LIMIT_REASONS
            ],
        )


# All reasons on which Batch acts for ECS (user guide, "Automatic remediation with jobStateTimeLimitActions").
# Without them the first job that cannot start blocks the queue for good.
TIME_LIMIT_REASONS = (
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
)


def job_queue_name(cluster: str) -> str:
    return derived_name("batch", cluster)


# The multi-node job of a cluster: one open range of nodes, each with all of a machine. L1: the L2 renders a
# closed range, and then no job can ask for another number of nodes.
_Definition = batch.CfnJobDefinition

_SHARED_MEMORY_MIB = 64000  # for data loaders and collectives; Docker's default of 64 MiB ends in a bus error
_SHARED_MEMORY_SHARE = 0.25  # of the memory of small nodes
_EVERY_PERMISSION = ("READ", "WRITE", "MKNOD")


class MultiNodeJob(Construct):
    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: BatchCluster,
        base: NodeFoundation,
        access: NodeAccess,
        image: str,
    ) -> None:
        super().__init__(scope, id)
        container = _container(cluster, base, access, image)
        self.resource = _Definition(
            self,
            "Resource",
            type="multinode",
            node_properties=_Definition.NodePropertiesProperty(
                main_node=0,
                num_nodes=cluster.max_nodes,
                node_range_properties=[
                    _Definition.NodeRangePropertyProperty(target_nodes="0:", container=container)
                ],
            ),
            retry_strategy=_Definition.RetryStrategyProperty(
                attempts=cluster.job_attempts,
                evaluate_on_exit=[_Definition.EvaluateOnExitProperty(**asdict(rule)) for rule in RETRY_RULES],
            ),
            timeout=_Definition.TimeoutProperty(attempt_duration_seconds=cluster.job_timeout // _SECOND),
            propagate_tags=True,
        )


def shared_memory_mib(type_: InstanceType) -> int:
    return min(_SHARED_MEMORY_MIB, int(type_.memory_mib * _SHARED_MEMORY_SHARE))


def _container(
    cluster: BatchCluster, base: NodeFoundation, access: NodeAccess, image: str
) -> batch.CfnJobDefinition.ContainerPropertiesProperty:
    type_ = instance_type(cluster.instance_type)
    needs = container_needs(type_, efa_interface_count(cluster))
    volumes = _volumes(base.storage.files)
    return _Definition.ContainerPropertiesProperty(
        image=image,
        instance_type=type_.name,
        job_role_arn=access.job_role.arn,
        execution_role_arn=access.execution_role.arn,
        privileged=False,
        resource_requirements=_resources(type_, needs),
        linux_parameters=_linux(type_, needs),
        ulimits=[
            # EFA and the accelerators pin memory; data loaders and checkpoints open many files.
            _Definition.UlimitProperty(name="memlock", soft_limit=-1, hard_limit=-1),
            _Definition.UlimitProperty(name="nofile", soft_limit=65536, hard_limit=65536),
        ],
        environment=[
            _Definition.EnvironmentProperty(name=name, value=value)
            for name, value in sorted(needs.environment.items())
        ],
        volumes=list(volumes.values()),
        mount_points=[
            _Definition.MountPointsProperty(source_volume=volume.name, container_path=path)
            for path, volume in volumes.items()
        ],
        log_configuration=_Definition.LogConfigurationProperty(
            log_driver="awslogs",
            options={
                "awslogs-group": base.job_logs.name,
                "awslogs-region": cluster.region,
                "awslogs-stream-prefix": "job",
            },
        ),
    )


def _volumes(files: SharedFiles) -> Mapping[str, batch.CfnJobDefinition.VolumesProperty]:
    """Return the node's folders by their path in containers; its boot has mounted the shared files.

    With efsVolumeConfiguration, ECS's agent would mount them through the task's own interface
    (aws/amazon-ecs-agent, agent/taskresource/volume/dockervolume.go), which is in the VPC's default group:
    the file system does not admit that.
    """
    return {
        path: _Definition.VolumesProperty(
            name=path.rpartition("/")[2], host=_Definition.VolumesHostProperty(source_path=path)
        )
        for path in (SCRATCH, files.mount_point)
        if path is not None
    }


def _linux(type_: InstanceType, needs: ContainerNeeds) -> batch.CfnJobDefinition.LinuxParametersProperty:
    return _Definition.LinuxParametersProperty(
        init_process_enabled=True,  # reaps processes that a launcher leaves, and passes signals on
        shared_memory_size=shared_memory_mib(type_),
        devices=[
            _Definition.DeviceProperty(
                host_path=device, container_path=device, permissions=list(_EVERY_PERMISSION)
            )
            for device in needs.devices
        ],
    )


def _resources(
    type_: InstanceType, needs: ContainerNeeds
) -> list[batch.CfnJobDefinition.ResourceRequirementProperty]:
    wanted = {
        "VCPU": type_.vcpus,
        "MEMORY": type_.job_memory_mib,
        "GPU": needs.gpus,
    }
    return [
        _Definition.ResourceRequirementProperty(type=sort, value=str(amount))
        for sort, amount in wanted.items()
        if amount
    ]
