"""Properties are checked by CloudFormation's own schemas, which accept real templates."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slipway.yard.cloudformation.template import blueprint, parameters, schemas, template
from tests.yard.cloudformation.conftest import FakeLookups

if TYPE_CHECKING:
    from aws_cdk import Stack
    from aws_cdk.aws_ec2 import Vpc

ROOT = Path(__file__).parents[4]
MULTINODE = {
    "Type": "multinode",
    "NodeProperties": {
        "MainNode": "0",
        "NumNodes": 2,
        "NodeRangeProperties": [
            {"TargetNodes": "0:", "Container": {"Image": "i", "Privileged": "true", "Memory": "512"}}
        ],
    },
}


@pytest.mark.parametrize(
    ("resource_type", "properties", "problem"),
    [
        ("AWS::S3::Bucket", {"Bucketname": "b"}, "#: extraneous key [Bucketname] is not permitted"),
        ("AWS::S3::BucketPolicy", {"Bucket": "b"}, "#: required key [PolicyDocument] not found"),
        (
            "AWS::S3::Bucket",
            {"VersioningConfiguration": {"Status": "On"}},
            "#/VersioningConfiguration/Status: On is not a valid enum value, which are Enabled, Suspended",
        ),
        (
            "AWS::EC2::VPC",
            {"CidrBlock": ["10.0.0.0/16"]},
            "#/CidrBlock: expected type: String, found: JSONArray",
        ),
        (
            "AWS::EFS::FileSystem",
            {"ThroughputMode": "elastic", "FileSystemTags": [{"Key": "a"}]},
            "#/FileSystemTags/0: required key [Value] not found",
        ),
        ("AWS::Logs::LogGroup", {"RetentionInDays": "29"}, "#/RetentionInDays: 29 is not a valid enum value"),
        (
            "AWS::EC2::SecurityGroupEgress",
            {"GroupId": "sg-1", "IpProtocol": "-1"},
            "#: exactly one of ['CidrIp', 'CidrIpv6', 'DestinationPrefixListId'",
        ),
        ("AWS::S3::Bucket", {"Arn": "a"}, "#: extraneous key [Arn] is not permitted: it is read-only"),
        ("AWS::EC2::Subnet", {"VpcId": "v", "MapPublicIpOnLaunch": "yes"}, "expected type: Boolean"),
        (
            "AWS::EC2::Instance",
            {"SubnetId": "s", "NetworkInterfaces": [{"DeviceIndex": "0"}]},
            "#: [SubnetId] cannot be given with [NetworkInterfaces]",
        ),
    ],
)
def test_properties_that_aws_would_refuse_are_refused(
    resource_type: str, properties: Mapping[str, Any], problem: str
) -> None:
    assert any(problem in found for found in schemas.check(resource_type, properties))


@pytest.mark.parametrize(
    ("resource_type", "properties"),
    [
        ("AWS::Logs::LogGroup", {"RetentionInDays": "30"}),
        ("AWS::EC2::Subnet", {"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/24", "MapPublicIpOnLaunch": "false"}),
        ("AWS::SSM::Parameter", {"Type": "String", "Value": 5}),
        ("AWS::Batch::JobDefinition", MULTINODE),
        ("AWS::S3::Bucket", {"BucketName": object()}),  # a value that is not known yet
        ("AWS::CDK::Metadata", {"Analytics": "v2:…"}),
    ],
)
def test_properties_that_aws_would_accept_are_accepted(
    resource_type: str, properties: Mapping[str, Any]
) -> None:
    assert schemas.check(resource_type, properties) == ()


def test_values_reach_a_resource_in_the_types_of_its_schema() -> None:
    coerced = schemas.coerce("AWS::Batch::JobDefinition", MULTINODE)["NodeProperties"]
    assert coerced["MainNode"] == 0
    assert coerced["NodeRangeProperties"][0]["Container"] == {"Image": "i", "Privileged": True, "Memory": 512}
    assert schemas.coerce("AWS::SSM::Parameter", {"Value": 5, "Tags": {"a": True}}) == {
        "Value": "5",
        "Tags": {"a": "true"},
    }


def test_the_facts_of_a_type_are_those_of_its_schema() -> None:
    assert schemas.create_only("AWS::EC2::LaunchTemplate") == ("LaunchTemplateName",)
    assert "ComputeResources/SpotIamFleetRole" in schemas.create_only("AWS::Batch::ComputeEnvironment")
    assert "InstanceType" in schemas.conditional_create_only("AWS::EC2::Instance")
    assert schemas.primary_identifier("AWS::S3::Bucket") == ("BucketName",)
    assert "Arn" in schemas.read_only("AWS::S3::Bucket")
    assert schemas.has_attribute("AWS::S3::Bucket", "Arn")
    assert not schemas.has_attribute("AWS::S3::Bucket", "Colour")


def test_only_real_types_are_known() -> None:
    assert schemas.is_known("AWS::PCS::Cluster")
    assert schemas.is_known("AWS::CDK::Metadata")
    assert not schemas.is_known("AWS::Batch::JobQeue")


def problems(text: str) -> Iterator[str]:
    """List all problems that the checks find in a synthesized template."""

    class Lookups(FakeLookups):
        def parameter(self, name: str) -> str:
            return "ami-0123" if "ami" in name else "30"

    loaded = template.load(text)
    place = blueprint.StackIdentity(
        region="us-east-1", account="123456789012", stack_name="s", stack_id="arn:s"
    )
    values = parameters.resolve(loaded, {}, {}, Lookups())
    drawn = blueprint.draw(loaded, values, place, Lookups(), str)
    for planned in drawn.resources.values():
        resource_type = planned.declared.type
        assert schemas.is_known(resource_type), resource_type
        yield from (f"{resource_type} {found}" for found in schemas.check(resource_type, planned.properties))


def synthesized() -> str:
    import aws_cdk as cdk

    app = cdk.App(analytics_reporting=True)
    stack = cdk.Stack(app, "Stack", env=cdk.Environment(account="123456789012", region="us-east-1"))
    declare_storage(stack, declare_network(stack))
    declare_watching(stack)
    return json.dumps(app.synth().get_stack_by_name("Stack").template)


def declare_network(stack: Stack) -> Vpc:
    from aws_cdk import aws_ec2, aws_iam

    vpc = aws_ec2.Vpc(stack, "Vpc", availability_zones=["us-east-1a", "us-east-1b"], nat_gateways=1)
    vpc.add_flow_log("Flow")
    group = aws_ec2.SecurityGroup(stack, "Group", vpc=vpc)
    group.add_ingress_rule(group, aws_ec2.Port.all_traffic())
    role = aws_iam.Role(stack, "Role", assumed_by=aws_iam.ServicePrincipal("ec2.amazonaws.com"))
    image = aws_ec2.MachineImage.latest_amazon_linux2023()
    kind = aws_ec2.InstanceType("t3.micro")
    aws_ec2.Instance(stack, "Instance", vpc=vpc, instance_type=kind, machine_image=image, role=role)
    return vpc


def declare_storage(stack: Stack, vpc: Vpc) -> None:
    from aws_cdk import aws_efs, aws_fsx, aws_kms, aws_s3

    aws_s3.Bucket(stack, "Bucket", enforce_ssl=True, encryption_key=aws_kms.Key(stack, "Key"))
    aws_efs.FileSystem(stack, "Efs", vpc=vpc).add_access_point("Point", path="/data")
    lustre = aws_fsx.LustreConfiguration(deployment_type=aws_fsx.LustreDeploymentType.SCRATCH_2)
    aws_fsx.LustreFileSystem(
        stack,
        "Fsx",
        vpc=vpc,
        vpc_subnet=vpc.private_subnets[0],
        storage_capacity_gib=1200,
        lustre_configuration=lustre,
    )


def declare_watching(stack: Stack) -> None:
    from aws_cdk import aws_batch, aws_budgets, aws_cloudwatch, aws_logs, aws_sns

    metric = aws_logs.LogGroup(stack, "Logs").metric_incoming_bytes()
    aws_cloudwatch.Alarm(stack, "Alarm", metric=metric, threshold=1, evaluation_periods=1)
    aws_sns.Topic(stack, "Topic", enforce_ssl=True)
    limit = {"amount": 9, "unit": "USD"}
    budget = {"budgetType": "COST", "timeUnit": "MONTHLY", "budgetLimit": limit}
    aws_budgets.CfnBudget(stack, "Budget", budget=budget)
    aws_batch.CfnJobDefinition(stack, "Job", type="container", container_properties={"image": "i"})


def test_what_the_cdk_synthesizes_passes_without_noise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CDK_VALIDATION", "false")
    monkeypatch.setenv("CDK_OUTDIR", str(tmp_path))
    monkeypatch.setenv("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20,22")
    assert list(problems(synthesized())) == []


def test_the_bootstrap_template_of_the_cdk_passes_without_noise(tmp_path: Path) -> None:
    cdk = ROOT / "node_modules" / ".bin" / "cdk"
    if not cdk.exists():
        pytest.skip("the CDK command line is not installed: npm ci")
    shown = subprocess.run(
        [str(cdk), "bootstrap", "--show-template"],
        cwd=tmp_path,
        env={**os.environ, "CDK_DISABLE_CLI_TELEMETRY": "1"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert list(problems(shown.stdout)) == []
