"""ParallelCluster in CloudFormation: its provider as a nested stack, and a cluster that is kept."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.yard.cloudformation.resources.registry import provider
from slipway.yard.errors import ApiError
from tests.yard.cloudformation.resources.cases import CASES
from tests.yard.cloudformation.resources.world import World, new_context
from tests.yard.cloudformation.stacks import Stacks
from tests.yard.conftest import RunningYard

KIND = "Custom::PclusterCluster"
URL = (
    "https://${AWS::Region}-aws-parallelcluster.s3.${AWS::Region}.${AWS::URLSuffix}"
    "/parallelcluster/3.14.0/templates/custom_resource/cluster.yaml"
)


def test_a_template_nests_the_provider_that_aws_publishes_and_makes_a_cluster_with_it(
    yard: RunningYard,
) -> None:
    stacks = Stacks(yard)
    nested = {"TemplateURL": {"Fn::Sub": URL}, "TimeoutInMinutes": 10}
    subnet = {"Ref": "Subnet"}
    scheduling = {
        "Scheduler": "slurm",
        "SlurmQueues": [{"Name": "hpc", "Networking": {"SubnetIds": [subnet]}}],
    }
    configuration = {
        "Image": {"Os": "alinux2023"},
        "HeadNode": {"InstanceType": "c6i.large", "Networking": {"SubnetId": subnet}},
        "Scheduling": scheduling,
    }
    cluster = {
        "ServiceToken": {"Fn::GetAtt": ["Provider", "Outputs.ServiceToken"]},
        "ClusterName": "hpc",
        "ClusterConfiguration": configuration,
    }
    network = {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.40.0.0/24"}
    resources = {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.40.0.0/16"}},
        "Subnet": {"Type": "AWS::EC2::Subnet", "Properties": network},
        "Provider": {"Type": "AWS::CloudFormation::Stack", "Properties": nested},
        "Cluster": {"Type": KIND, "Properties": cluster},
    }
    outputs = {"Said": {"Value": {"Fn::GetAtt": ["Cluster", "validationMessages"]}}}
    made = stacks.create("pcluster", {"Resources": resources, "Outputs": outputs})
    assert made["Cluster"] == "hpc"
    assert stacks.outputs("pcluster") == {"Said": "[]"}
    stacks.delete("pcluster")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ClusterName": "1st"}, "'1st' does not match"),
        ({"ServiceToken": "arn:aws:sns:us-east-1:123456789012:topic"}, "has to be the ARN of one"),
        ({"ClusterConfiguration": {"HeadNode": {}}}, "missing Image.Os, HeadNode.InstanceType"),
    ],
)
def test_a_cluster_that_parallel_cluster_would_not_make_is_refused(
    world: World, changed: dict[str, Any], said: str
) -> None:
    given = {**CASES[KIND](world).properties, **changed}
    with pytest.raises(ApiError, match=said):
        provider(KIND).create(new_context("Cluster"), given)


def test_a_cluster_in_a_subnet_that_is_not_there_is_refused(world: World) -> None:
    given = CASES[KIND](world).properties
    nowhere = {"InstanceType": "c6i.large", "Networking": {"SubnetId": "subnet-0123456789abcdef0"}}
    broken = {**given, "ClusterConfiguration": {**given["ClusterConfiguration"], "HeadNode": nowhere}}
    with pytest.raises(ApiError, match="subnet-0123456789abcdef0"):
        provider(KIND).create(new_context("Cluster"), broken)


def test_a_cluster_keeps_its_name(world: World) -> None:
    made = world.make(KIND, **CASES[KIND](world).properties)
    with pytest.raises(ApiError, match="Cannot update the ClusterName"):
        made.update(ClusterName="another")
