"""AWS Parallel Computing Service: Slurm."""

from __future__ import annotations

from typing import Any

from tests.yard.cloudformation.resources.cases.case import OTHER_TAG_MAP, TAG_MAP, Case, Cases
from tests.yard.cloudformation.resources.world import World


def slurm(**settings: str) -> dict[str, Any]:
    custom = [{"ParameterName": name, "ParameterValue": value} for name, value in settings.items()]
    return {"ScaleDownIdleTimeInSeconds": 300, "SlurmCustomSettings": custom}


def pcs_cluster(world: World) -> Case:
    return Case(
        properties={
            "Name": "trial",
            "Size": "SMALL",
            "Scheduler": {"Type": "SLURM", "Version": "25.05"},
            "Networking": {"SubnetIds": [world.subnet()], "SecurityGroupIds": [world.security_group()]},
            "SlurmConfiguration": slurm(Prolog="/opt/prolog.sh"),
            "Tags": TAG_MAP,
        },
        change={"SlurmConfiguration": slurm(Prolog="/opt/other.sh"), "Tags": OTHER_TAG_MAP},
    )


def node_group(world: World) -> Case:
    cluster = world.make("AWS::PCS::Cluster", **pcs_cluster(world).properties)
    template = world.launch_template()
    return Case(
        properties={
            "ClusterId": cluster.attribute("Id"),
            "Name": "trn1",
            "SubnetIds": [world.subnet()],
            "PurchaseOption": "ONDEMAND",
            "CustomLaunchTemplate": {"TemplateId": template.id, "Version": "1"},
            "IamInstanceProfileArn": world.pcs_profile(),
            "ScalingConfiguration": {"MinInstanceCount": 0, "MaxInstanceCount": 4},
            "InstanceConfigs": [{"InstanceType": "trn1.32xlarge"}],
            "Tags": TAG_MAP,
        },
        change={"ScalingConfiguration": {"MinInstanceCount": 0, "MaxInstanceCount": 8}},
    )


def pcs_queue(world: World) -> Case:
    group = world.make("AWS::PCS::ComputeNodeGroup", **node_group(world).properties)
    return Case(
        properties={
            "ClusterId": group.properties["ClusterId"],
            "Name": "train",
            "ComputeNodeGroupConfigurations": [{"ComputeNodeGroupId": group.attribute("Id")}],
            "Tags": TAG_MAP,
        },
        change={"Tags": OTHER_TAG_MAP},
    )


CASES: Cases = {
    "AWS::PCS::Cluster": pcs_cluster,
    "AWS::PCS::ComputeNodeGroup": node_group,
    "AWS::PCS::Queue": pcs_queue,
}
