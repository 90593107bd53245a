"""The multi-node job of a cluster: one open range of nodes, each with all of a machine.

L1: the L2 renders a closed range, and then no job can ask for another number of nodes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from aws_cdk import aws_batch as batch
from constructs import Construct

from slipway.infra.patterns.nodes.accelerators import ContainerNeeds
from slipway.jobs.catalogue.instances import InstanceType
from slipway.jobs.core.retries import RETRY_RULES

_Definition = batch.CfnJobDefinition

# ECS registers less than the nominal memory: 507,821 of 524,288 MiB on trn1.32xlarge, a ratio of 0.969. A
# job that asks for more than what registers is never placed, and nothing says why; 0.96 holds for what
# nobody measured.
_REGISTERED_SHARE = 0.96
_SHARED_MEMORY_MIB = 64000  # data loaders and collectives; Docker's own 64 MiB ends in a bus error
_SHARED_MEMORY_SHARE = 0.25  # on small nodes
_EVERY_PERMISSION = ("READ", "WRITE", "MKNOD")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFolder:
    """The same path on the node and in the container."""

    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiNodeJobProps:
    image: str
    instance_type: InstanceType
    needs: ContainerNeeds
    nodes: int
    job_role_arn: str
    execution_role_arn: str
    log_group_name: str
    region: str
    folders: tuple[HostFolder, ...]
    timeout_seconds: int
    attempts: int


class MultiNodeJob(Construct):
    def __init__(self, scope: Construct, id: str, *, props: MultiNodeJobProps) -> None:
        super().__init__(scope, id)
        self.resource = _Definition(
            self,
            "Resource",
            type="multinode",
            node_properties=_Definition.NodePropertiesProperty(
                main_node=0,
                num_nodes=props.nodes,
                node_range_properties=[
                    _Definition.NodeRangePropertyProperty(target_nodes="0:", container=_container(props))
                ],
            ),
            retry_strategy=_Definition.RetryStrategyProperty(
                attempts=props.attempts, evaluate_on_exit=_evaluate_on_exit()
            ),
            timeout=_Definition.TimeoutProperty(attempt_duration_seconds=props.timeout_seconds),
            propagate_tags=True,
        )


def job_memory_mib(instance_type: InstanceType) -> int:
    nominal = int(instance_type.memory_mib * _REGISTERED_SHARE)
    return min(nominal, instance_type.registered_memory_mib or nominal)


def shared_memory_mib(instance_type: InstanceType) -> int:
    return min(_SHARED_MEMORY_MIB, int(instance_type.memory_mib * _SHARED_MEMORY_SHARE))


def _container(props: MultiNodeJobProps) -> batch.CfnJobDefinition.ContainerPropertiesProperty:
    return _Definition.ContainerPropertiesProperty(
        image=props.image,
        instance_type=props.instance_type.name,
        job_role_arn=props.job_role_arn,
        execution_role_arn=props.execution_role_arn,
        privileged=False,
        resource_requirements=_resources(props),
        linux_parameters=_linux(props),
        ulimits=[
            # EFA and the accelerators pin memory; data loaders and checkpoints open many files.
            _Definition.UlimitProperty(name="memlock", soft_limit=-1, hard_limit=-1),
            _Definition.UlimitProperty(name="nofile", soft_limit=65536, hard_limit=65536),
        ],
        environment=[
            _Definition.EnvironmentProperty(name=name, value=value)
            for name, value in sorted(props.needs.environment.items())
        ],
        volumes=[
            _Definition.VolumesProperty(
                name=folder.name, host=_Definition.VolumesHostProperty(source_path=folder.path)
            )
            for folder in props.folders
        ],
        mount_points=[
            _Definition.MountPointsProperty(source_volume=folder.name, container_path=folder.path)
            for folder in props.folders
        ],
        log_configuration=_Definition.LogConfigurationProperty(
            log_driver="awslogs",
            options={
                "awslogs-group": props.log_group_name,
                "awslogs-region": props.region,
                "awslogs-stream-prefix": "job",
            },
        ),
    )


def _evaluate_on_exit() -> list[batch.CfnJobDefinition.EvaluateOnExitProperty]:
    return [_Definition.EvaluateOnExitProperty(**asdict(rule)) for rule in RETRY_RULES]


def _linux(props: MultiNodeJobProps) -> batch.CfnJobDefinition.LinuxParametersProperty:
    return _Definition.LinuxParametersProperty(
        init_process_enabled=True,  # reaps what a launcher leaves, and passes signals on
        shared_memory_size=shared_memory_mib(props.instance_type),
        devices=[
            _Definition.DeviceProperty(
                host_path=device, container_path=device, permissions=list(_EVERY_PERMISSION)
            )
            for device in props.needs.devices
        ],
    )


def _resources(
    props: MultiNodeJobProps,
) -> list[batch.CfnJobDefinition.ResourceRequirementProperty]:
    wanted = {
        "VCPU": props.instance_type.vcpus,
        "MEMORY": job_memory_mib(props.instance_type),
        "GPU": props.needs.gpus,
    }
    return [
        _Definition.ResourceRequirementProperty(type=sort, value=str(amount))
        for sort, amount in wanted.items()
        if amount
    ]
