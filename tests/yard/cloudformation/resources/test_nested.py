"""Nested stacks: made, changed, rolled back and deleted with their parent, which sees their outputs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.yard.cloudformation.resources.nested import RULES, replaces
from slipway.yard.cloudformation.resources.registry import provider
from slipway.yard.cloudformation.template import schemas
from slipway.yard.errors import ApiError
from tests.yard.cloudformation.resources.cases import CASES
from tests.yard.cloudformation.resources.world import World, new_context
from tests.yard.cloudformation.stacks import Stacks
from tests.yard.conftest import RunningYard

BUCKET = "templates"
URL = f"https://{BUCKET}.s3.us-east-1.amazonaws.com/child.json"
REFUSED = {"Type": "AWS::Logs::LogStream", "Properties": {"LogGroupName": "not-there"}}


def child(**topic: Any) -> dict[str, Any]:
    return {
        "Parameters": {"Name": {"Type": "String"}},
        "Resources": {
            "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": {"Ref": "Name"}, **topic}}
        },
        "Outputs": {"Arn": {"Value": {"Ref": "Topic"}}},
    }


def parent(name: str = "one", **resources: Any) -> dict[str, Any]:
    nested = {"TemplateURL": URL, "Parameters": {"Name": name}}
    return {
        "Resources": {"Child": {"Type": "AWS::CloudFormation::Stack", "Properties": nested}, **resources},
        "Outputs": {"Arn": {"Value": {"Fn::GetAtt": ["Child", "Outputs.Arn"]}}},
    }


@pytest.fixture
def stacks(yard: RunningYard) -> Stacks:
    yard.client("s3").create_bucket(Bucket=BUCKET)
    upload(yard, child())
    return Stacks(yard)


def upload(yard: RunningYard, body: dict[str, Any]) -> None:
    yard.client("s3").put_object(Bucket=BUCKET, Key="child.json", Body=json.dumps(body).encode())


def display_name(stacks: Stacks, arn: str) -> str:
    found = stacks.yard.client("sns").get_topic_attributes(TopicArn=arn)["Attributes"]
    return str(found["DisplayName"])


def test_a_parent_sees_the_outputs_of_its_child_and_takes_it_along(stacks: Stacks) -> None:
    made = stacks.create("parent", parent())
    arn = stacks.outputs("parent")["Arn"]
    assert display_name(stacks, arn) == "one"
    (shown,) = stacks.cloudformation.describe_stacks(StackName=made["Child"])["Stacks"]
    assert shown["StackName"].startswith("parent-Child-")
    assert shown["ParentId"] == shown["RootId"]
    assert ":stack/parent/" in shown["ParentId"]
    stacks.delete("parent")
    assert stacks.yard.client("sns").list_topics()["Topics"] == []
    assert stacks.cloudformation.describe_stacks()["Stacks"] == []


def test_an_update_reaches_the_child_and_so_does_another_template_at_the_same_address(stacks: Stacks) -> None:
    stacks.create("parent", parent(), Tags=[{"Key": "team", "Value": "ml"}])
    stacks.update("parent", parent("two"))
    arn = stacks.outputs("parent")["Arn"]
    assert display_name(stacks, arn) == "two"
    tags = stacks.yard.client("sns").list_tags_for_resource(ResourceArn=arn)["Tags"]
    assert tags == [{"Key": "team", "Value": "ml"}]
    upload(stacks.yard, child(TopicName="named"))
    stacks.update("parent", parent("two", Another={"Type": "AWS::SNS::Topic"}))
    assert stacks.outputs("parent")["Arn"].endswith(":named")


def test_a_child_goes_back_with_its_parent(stacks: Stacks) -> None:
    stacks.create("parent", parent())
    with pytest.raises(AssertionError, match="Refused"):
        stacks.update("parent", parent("two", Refused={**REFUSED, "DependsOn": "Child"}))
    (shown,) = stacks.cloudformation.describe_stacks(StackName="parent")["Stacks"]
    assert shown["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert display_name(stacks, stacks.outputs("parent")["Arn"]) == "one"


def test_what_fails_in_a_child_or_is_not_there_is_said_of_its_parent_and_nothing_is_left(
    stacks: Stacks,
) -> None:
    broken = child()
    broken["Resources"]["Refused"] = REFUSED
    upload(stacks.yard, broken)
    with pytest.raises(AssertionError, match=r"Embedded stack .* was not successfully created: Refused"):
        stacks.create("parent", parent())
    assert [one["StackName"] for one in stacks.cloudformation.describe_stacks()["Stacks"]] == ["parent"]
    assert stacks.yard.client("sns").list_topics()["Topics"] == []
    body = parent()
    body["Resources"]["Child"]["Properties"]["TemplateURL"] = "https://elsewhere.s3.amazonaws.com/a.yaml"
    with pytest.raises(AssertionError, match=r"upload the template there as s3://elsewhere/a\.yaml"):
        stacks.create("other", body)


# ParallelCluster in CloudFormation: its provider as a nested stack, and a cluster that is kept.
KIND = "Custom::PclusterCluster"
PROVIDER_URL = (
    "https://${AWS::Region}-aws-parallelcluster.s3.${AWS::Region}.${AWS::URLSuffix}"
    "/parallelcluster/3.14.0/templates/custom_resource/cluster.yaml"
)


def test_a_template_nests_the_provider_that_aws_publishes_and_makes_a_cluster_with_it(
    yard: RunningYard,
) -> None:
    stacks = Stacks(yard)
    nested = {"TemplateURL": {"Fn::Sub": PROVIDER_URL}, "TimeoutInMinutes": 10}
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


NOWHERE = {"InstanceType": "c6i.large", "Networking": {"SubnetId": "subnet-0123456789abcdef0"}}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ClusterName": "1st"}, "'1st' does not match"),
        ({"ServiceToken": "arn:aws:sns:us-east-1:123456789012:topic"}, "has to be the ARN of one"),
        ({"ClusterConfiguration": {"HeadNode": {}}}, "missing Image.Os, HeadNode.InstanceType"),
        ({"HeadNode": NOWHERE}, "subnet-0123456789abcdef0"),
    ],
)
def test_a_cluster_that_parallel_cluster_would_not_make_is_refused(
    world: World, changed: dict[str, Any], said: str
) -> None:
    sound = CASES[KIND](world).properties
    given = {**sound, **changed}
    if head := given.pop("HeadNode", None):
        given["ClusterConfiguration"] = {**sound["ClusterConfiguration"], "HeadNode": head}
    with pytest.raises(ApiError, match=said):
        provider(KIND).create(new_context("Cluster"), given)
    made = world.make(KIND, **sound)
    with pytest.raises(ApiError, match="Cannot update the ClusterName"):
        made.update(ClusterName="another")


# When a conditionally create-only property replaces its resource.


@pytest.mark.parametrize(
    ("kind", "path", "new", "replaced"),
    [
        ("AWS::Batch::ComputeEnvironment", "ComputeResources/InstanceTypes", {}, True),
        (
            "AWS::Batch::ComputeEnvironment",
            "ComputeResources/LaunchTemplate",
            {"ReplaceComputeEnvironment": False},
            False,
        ),
        ("AWS::AutoScaling::AutoScalingGroup", "LaunchTemplate", {}, False),
        ("AWS::EC2::VPC", "InstanceTenancy", {"InstanceTenancy": "dedicated"}, True),
        ("AWS::EC2::VPC", "InstanceTenancy", {"InstanceTenancy": "default"}, False),
        ("AWS::EC2::Instance", "InstanceType", {}, False),
        ("AWS::EC2::Instance", "BlockDeviceMappings", {}, True),
        ("AWS::SSM::Document", "Content", {"UpdateMethod": "NewVersion"}, False),
        ("AWS::SSM::Document", "Content", {}, True),
        ("AWS::Events::Rule", "EventBusName", {}, True),
    ],
)
def test_a_conditional_change_replaces_as_cloudformation_says(
    kind: str, path: str, new: dict[str, Any], replaced: bool
) -> None:
    assert replaces(kind, path, {}, new) is replaced


@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind, paths in RULES.items() for path in paths])
def test_every_rule_is_about_a_property_that_the_schema_calls_conditional(kind: str, path: str) -> None:
    assert path == "*" or path in schemas.conditional_create_only(kind)
