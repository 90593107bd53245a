"""The launch template of a node: its network interfaces, disk, metadata service, first boot and market."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import CfnOutput, CfnParameter, CfnTag
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from slipway.infra.declare.node_images import ami_parameter_of, node_image_of
from slipway.infra.declare.types import Cluster, NodeCluster
from slipway.infra.patterns.nodes.first_boot import node_user_data
from slipway.infra.patterns.nodes.network_interfaces import efa_interface_count, network_interfaces, purchase
from slipway.jobs.words.catalogue.instances import InstanceType, instance_type


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedMachine:
    """Holds what AWS Batch has in its compute environment, and other launch templates have themselves."""

    image_id: str
    instance_profile_arn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMachine:
    """Holds what AWS PCS reads only from a template."""

    name: str  # of the machines, for users
    placement_group: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTemplateProps:
    cluster: NodeCluster
    security_group_id: str
    boot_parameters: Mapping[str, object]
    machine: LaunchedMachine | None = None
    fleet: FleetMachine | None = None


class NodeTemplate(Construct):
    """Names no key pair and no subnet: users enter by Session Manager, and services name the subnet."""

    def __init__(self, scope: Construct, id: str, *, props: NodeTemplateProps) -> None:
        super().__init__(scope, id)
        cluster, machine, fleet = props.cluster, props.machine, props.fleet
        type_, bought = instance_type(cluster.instance_type), purchase(cluster)
        template = ec2.CfnLaunchTemplate
        group = fleet.placement_group if fleet else None
        # Disks have tags, so that they are billed with their cluster; all but AWS PCS tag nodes themselves.
        tags = cluster.billing_tags
        tagged = {"volume": tags, **({"instance": {"Name": fleet.name, **tags}} if fleet else {})}
        data = template.LaunchTemplateDataProperty(
            instance_type=type_.name if machine or (fleet and bought.names_type) else None,
            image_id=machine.image_id if machine else None,
            iam_instance_profile=template.IamInstanceProfileProperty(arn=machine.instance_profile_arn)
            if machine
            else None,
            cpu_options=cpu_options(type_) if machine else None,
            network_interfaces=network_interfaces(
                type_, efa_interfaces=efa_interface_count(cluster), security_group_id=props.security_group_id
            ),
            block_device_mappings=[_root_volume(cluster)],
            metadata_options=_METADATA,
            monitoring=template.MonitoringProperty(enabled=False),  # jobs measure themselves
            # A node that does not join shuts itself down (infra/boot/watch_join.sh); a stopped one would
            # stay.
            instance_initiated_shutdown_behavior="terminate",
            capacity_reservation_specification=bought.reservation,
            instance_market_options=bought.market_options,
            user_data=node_user_data(props.boot_parameters, node_image_of(cluster)),
            placement=template.PlacementProperty(group_name=group) if group is not None else None,
            tag_specifications=[
                template.TagSpecificationProperty(
                    resource_type=sort, tags=[CfnTag(key=key, value=value) for key, value in told.items()]
                )
                for sort, told in tagged.items()
            ],
        )
        self.resource = template(self, "Resource", launch_template_data=data)

    @property
    def version(self) -> str:
        """Return an attribute: the service keeps a number, so that a changed template reaches new nodes."""
        return self.resource.attr_latest_version_number


# Tokens only, and one hop. A task of AWS Batch has a network interface of its own, which is no hop away, and
# would reach the node's role: ECS's agent keeps tasks out (infra/boot/agents/ecs.config; ECS developer guide,
# "Amazon ECS task IAM role"), and gives them their own. AWS Batch runs no multi-node jobs on Spot, whose
# notice ranks would hear there.
_METADATA = ec2.CfnLaunchTemplate.MetadataOptionsProperty(
    http_tokens="required", http_put_response_hop_limit=1, http_endpoint="enabled"
)


# Container images of ten gigabytes are read and written here on nodes without local disks, and gp3's default
# is 125 MiB a second. Any size from 50 GiB allows both: 0.25 MiB a second for each operation, 500 operations
# for each GiB (EC2 user guide, "General Purpose SSD volumes").
_ROOT_MIB_PER_SECOND = 500
_ROOT_IOPS = 3000


def _root_volume(cluster: NodeCluster) -> ec2.CfnLaunchTemplate.BlockDeviceMappingProperty:
    """Encrypt with AWS's EBS key of the account, by name: without one, the account's default would be used.

    With a customer-managed key, the service-linked role of Auto Scaling would need a grant, and a key policy
    that names that role is refused in an account where it does not exist yet; nodes would die at launch
    without a reason.
    """
    return ec2.CfnLaunchTemplate.BlockDeviceMappingProperty(
        device_name=node_image_of(cluster).root_device,
        ebs=ec2.CfnLaunchTemplate.EbsProperty(
            volume_size=cluster.root_volume_gib,
            volume_type="gp3",
            iops=_ROOT_IOPS,
            throughput=_ROOT_MIB_PER_SECOND,
            encrypted=True,
            kms_key_id="alias/aws/ebs",
            delete_on_termination=True,
        ),
    )


# One thread on each core: two training processes on the threads of one core only wait for each other. EC2
# does it at launch, by the CPU options; bare metal has none, so the first boot does it.
_CpuOptions = ec2.CfnLaunchTemplate.CpuOptionsProperty


def cpu_options(type_: InstanceType) -> _CpuOptions | None:
    """Return None if a core has one thread anyway, or if the type takes no options."""
    if type_.cores is None or type_.cores == type_.vcpus or 1 not in type_.threads_per_core:
        return None
    return _CpuOptions(core_count=type_.cores, threads_per_core=1)  # EC2 wants both or neither


def threads_after_boot(type_: InstanceType) -> str:
    """Return the setting of the second thread of a core for Linux: off if EC2 left it on."""
    left_on = type_.cores != type_.vcpus and cpu_options(type_) is None
    return "off" if left_on else "on"


# The parameter of a stack by which its nodes find their AMI.


def node_image_id(stack: Construct, ami_parameter: str) -> str:
    """Return the id in an SSM parameter at the time of the deployment."""
    return _parameter(
        stack, ami_parameter, "Where the id of the nodes' machine image is kept"
    ).value_as_string


def require_node_image(stack: Construct, cluster: Cluster) -> None:
    """Refuse the stack before it makes anything if the AMI of its nodes has not been baked yet.

    CloudFormation reads such a parameter before the first resource; an output uses it and changes nothing.
    """
    if not isinstance(cluster, NodeCluster):
        return
    image = _parameter(
        stack, ami_parameter_of(cluster), "Has to be there before anything of the cluster costs money"
    )
    CfnOutput(stack, "NodeImageFound", value=image.value_as_string, description="The nodes' machine image")


def _parameter(stack: Construct, ami_parameter: str, description: str) -> CfnParameter:
    return CfnParameter(
        stack,
        "NodeImage",
        type="AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>",
        default=ami_parameter,
        description=description,
    )
