"""The machines of a Slurm cluster: workers that come with a job and go after it, and one node to log in.

A changed template or image reaches machines as AWS PCS starts them: it drains those that run, and replaces
each after its job.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_pcs as pcs
from constructs import Construct

from slipway.infra.declare.types import Cluster, Market
from slipway.infra.patterns.nodes.launch_template import NodeTemplate
from slipway.infra.patterns.nodes.markets import purchase
from slipway.infra.patterns.slurm.scheduler import Scheduler
from slipway.infra.patterns.slurm.slurm_access import MachineRole
from slipway.jobs.words.catalogue.instances import CPU, InstanceType, device_of, instance_type

_Group = pcs.CfnComputeNodeGroup
_PURCHASES = {Market.CAPACITY_BLOCK: "CAPACITY_BLOCK"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNodeGroupProps:
    name: str
    cluster: Cluster  # of its machines: the login node's differs in type and market
    fewest: int
    most: int
    image_id: str
    subnet_id: str
    scheduler: Scheduler
    template: NodeTemplate
    machine: MachineRole


class SlurmNodeGroup(Construct):
    def __init__(self, scope: Construct, id: str, *, props: SlurmNodeGroupProps) -> None:
        super().__init__(scope, id)
        type_ = instance_type(props.cluster.instance_type)
        self.resource = _Group(
            self,
            "Resource",
            cluster_id=props.scheduler.id,
            name=props.name,
            ami_id=props.image_id,
            subnet_ids=[props.subnet_id],
            purchase_option=_PURCHASES.get(props.cluster.market, "ONDEMAND"),
            instance_configs=[_Group.InstanceConfigProperty(instance_type=type_.name)],
            scaling_configuration=_Group.ScalingConfigurationProperty(
                min_instance_count=props.fewest, max_instance_count=props.most
            ),
            custom_launch_template=_Group.CustomLaunchTemplateProperty(
                template_id=props.template.resource.ref, version=props.template.version
            ),
            iam_instance_profile_arn=props.machine.profile_arn,
            slurm_configuration=_devices(type_),
        )
        self.resource.node.add_dependency(props.machine.role.policy)

    @property
    def id(self) -> str:
        return self.resource.attr_id


def cluster_placement_group(scope: Construct, cluster: Cluster) -> str | None:
    """Make the group that keeps workers close; None where a capacity block does."""
    if not purchase(cluster).in_placement_group:
        return None
    return ec2.CfnPlacementGroup(scope, "PlacementGroup", strategy="cluster").ref


def _devices(type_: InstanceType) -> _Group.SlurmConfigurationProperty | None:
    """Tell Slurm how many accelerators a node has; AWS PCS wants it in both of Slurm's files.

    By count and not by file: the prolog looks whether they are there, and drains a node that lacks one with
    that reason.
    """
    if type_.accelerator is None:
        return None
    name, count = device_of(type_), str(type_.accelerator.count)
    assert name != CPU
    return _Group.SlurmConfigurationProperty(
        gres_custom_settings=[{"Name": name, "Count": count}],
        slurm_custom_settings=[
            _Group.SlurmCustomSettingProperty(parameter_name="Gres", parameter_value=f"{name}:{count}")
        ],
    )
