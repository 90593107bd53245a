"""Resources of the CDK's own constructs work, in the smallest templates that have them."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from slipway.yard.endpoint import ACCOUNT
from tests.yard.asking import make_role
from tests.yard.cloudformation.stacks import Stacks, typed
from tests.yard.conftest import REGION, RunningYard
from tests.yard.services.functions.test_functions import LOGS, TRUSTED

NODE = "exports.handler = async () => {};"
ON_EVENT = """
def on_event(event, context):
    return {"PhysicalResourceId": "made", "Data": {"Zone": event["ResourceProperties"]["Zone"]}}

def is_complete(event, context):
    return {"IsComplete": True, "Data": {"Id": event["PhysicalResourceId"]}}
"""


def arn(name: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [name, "Arn"]}


def role(*allowed: str) -> dict[str, Any]:
    trust = {"Version": "2012-10-17", "Statement": [TRUSTED]}
    statement = {"Effect": "Allow", "Action": list(allowed), "Resource": "*"}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    policies = [{"PolicyName": "own", "PolicyDocument": document}] if allowed else []
    return typed(
        "AWS::IAM::Role", AssumeRolePolicyDocument=trust, ManagedPolicyArns=[LOGS], Policies=policies
    )


def function(code: str, runtime: str, role: str, handler: str = "index.handler", **variables: Any) -> Any:
    return typed(
        "AWS::Lambda::Function",
        Code={"ZipFile": code},
        Runtime=runtime,
        Handler=handler,
        Role=arn(role),
        Timeout=60,
        Environment={"Variables": variables},
    )


def sdk_call(action: str, **parameters: Any) -> str:
    call = {"service": "@aws-sdk/client-ssm", "action": action, "parameters": parameters}
    return json.dumps({**call, "physicalResourceId": {"id": "record"}})


def test_an_aws_custom_resource_makes_its_calls_with_the_rights_of_its_role(stacks: Stacks) -> None:
    write = sdk_call(
        "PutParameterCommand", Name="/wide", Value="one", Type="String", Overwrite="TRUE:BOOLEAN"
    )
    calls = {
        "Create": write,
        "Delete": sdk_call("deleteParameter", Name="/wide"),
        "InstallLatestAwsSdk": True,
    }
    resources = {
        "Role": role("ssm:PutParameter", "ssm:DeleteParameter"),
        "Caller": function(NODE, "nodejs22.x", "Role"),
        "Call": typed("Custom::AWS", ServiceToken=arn("Caller"), **calls),
    }
    outputs = {"Version": {"Value": {"Fn::GetAtt": ["Call", "Version"]}}}
    made = stacks.create("calls", {"Resources": resources, "Outputs": outputs})
    assert (made["Call"], stacks.outputs("calls")) == ("record", {"Version": "1"})
    ssm = stacks.yard.client("ssm")
    assert ssm.get_parameter(Name="/wide")["Parameter"]["Value"] == "one"
    stacks.delete("calls")
    assert ssm.describe_parameters()["Parameters"] == []
    resources["Role"] = role("ssm:DeleteParameter")
    with pytest.raises(AssertionError, match="is not authorized to perform: ssm:PutParameter"):
        stacks.create("refused", {"Resources": resources})


def test_the_cdks_provider_asks_the_functions_of_its_author(stacks: Stacks) -> None:
    resources = {
        "Role": role(),
        "Framework": role("lambda:InvokeFunction"),
        "OnEvent": function(ON_EVENT, "python3.12", "Role", "index.on_event"),
        "IsComplete": function(ON_EVENT, "python3.12", "Role", "index.is_complete"),
        "Provider": function(
            NODE,
            "nodejs22.x",
            "Framework",
            USER_ON_EVENT_FUNCTION_ARN=arn("OnEvent"),
            USER_IS_COMPLETE_FUNCTION_ARN=arn("IsComplete"),
        ),
        "Made": typed("Custom::Made", ServiceToken=arn("Provider"), Zone="a"),
    }
    outputs = {name: {"Value": {"Fn::GetAtt": ["Made", name]}} for name in ("Zone", "Id")}
    made = stacks.create("provided", {"Resources": resources, "Outputs": outputs})
    assert (made["Made"], stacks.outputs("provided")) == ("made", {"Zone": "a", "Id": "made"})
    stacks.delete("provided")


def test_a_vpc_of_both_protocols_has_the_block_that_it_gets_after_it_was_made(stacks: Stacks) -> None:
    blocks = {"Fn::Cidr": [{"Fn::Select": [0, {"Fn::GetAtt": ["Vpc", "Ipv6CidrBlocks"]}]}, 4, "64"]}
    vpc = {"Ref": "Vpc"}
    subnet = typed(
        "AWS::EC2::Subnet",
        VpcId=vpc,
        CidrBlock="10.1.0.0/24",
        Ipv6CidrBlock={"Fn::Select": [0, blocks]},
        AssignIpv6AddressOnCreation=True,
    )
    made = stacks.create(
        "dual",
        {
            "Vpc": typed("AWS::EC2::VPC", CidrBlock="10.1.0.0/16"),
            "Block": typed("AWS::EC2::VPCCidrBlock", VpcId=vpc, AmazonProvidedIpv6CidrBlock=True),
            "Subnet": {**subnet, "DependsOn": ["Block"]},
        },
    )
    found = stacks.yard.client("ec2").describe_subnets(SubnetIds=[made["Subnet"]])["Subnets"][0]
    assert found["Ipv6CidrBlockAssociationSet"][0]["Ipv6CidrBlock"].endswith("::/64")
    stacks.delete("dual")


def test_settings_that_nothing_here_could_act_on_are_taken_and_kept(stacks: Stacks) -> None:
    protected = {"Name": "policy", "Version": "2021-06-01", "Statement": []}
    made = stacks.create(
        "ssm-kept",
        {
            "Files": typed(
                "AWS::EFS::FileSystem",
                FileSystemProtection={"ReplicationOverwriteProtection": "DISABLED"},
                ReplicationConfiguration={"Destinations": [{"Region": "us-west-2"}]},
            ),
            "Log": typed("AWS::Logs::LogGroup", LogGroupName="/kept", DataProtectionPolicy=protected),
            "Words": typed("AWS::SSM::Parameter", Type="StringList", Value="a,b"),
        },
    )
    assert made["Words"].startswith("CFN-Words-")  # as AWS names it: a name may not begin with "ssm"
    stacks.delete("ssm-kept")


def test_a_flow_log_that_ec2_does_not_make_fails_its_stack(stacks: Stacks) -> None:
    flow_log = typed(
        "AWS::EC2::FlowLog",
        ResourceId={"Ref": "Vpc"},
        ResourceType="VPC",
        TrafficType="ALL",
        LogDestinationType="s3",
        LogDestination="arn:aws:s3:::nobodys-bucket",
    )
    with pytest.raises(AssertionError, match="nobodys-bucket"):
        stacks.create("flow", {"Vpc": typed("AWS::EC2::VPC", CidrBlock="10.1.0.0/16"), "Log": flow_log})


# What `cdk init app --language typescript` deploys once a newcomer has written one VPC into it.
# init_typescript.json is that app's own template, with every feature flag that `cdk init` writes,
# as aws-cdk-lib 2.276.0 made it; the paths of its constructs are left out.
TEMPLATE = Path(__file__).with_name("init_typescript.json")
ASSETS = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
S3_ALONE = "arn:aws:iam::aws:policy/AmazonS3FullAccess"
EVERYTHING = "arn:aws:iam::aws:policy/AdministratorAccess"


@pytest.fixture
def bootstrapped(yard: RunningYard) -> Stacks:
    """Return a yard with the parts of the CDK's bootstrap that the template needs."""
    yard.client("s3").create_bucket(Bucket=ASSETS)
    yard.client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String")
    return Stacks(yard)


def exec_role(yard: RunningYard, managed: str) -> str:
    """Make the role of --cloudformation-execution-policies MANAGED, which may read the bootstrap version."""
    read = {"Effect": "Allow", "Action": "ssm:GetParameters", "Resource": "*"}
    role = make_role(yard, "exec", {"Service": "cloudformation.amazonaws.com"}, read)
    yard.client("iam").attach_role_policy(RoleName="exec", PolicyArn=managed)
    return role


def test_a_fresh_typescript_app_with_one_vpc_comes_and_goes(bootstrapped: Stacks) -> None:
    role = exec_role(bootstrapped.yard, EVERYTHING)
    body = TEMPLATE.read_text(encoding="utf-8")
    asset = body.partition('"S3Key": "')[2].partition('"')[0]
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("__entrypoint__.js", "exports.handler = async () => {};")
    bootstrapped.yard.client("s3").put_object(Bucket=ASSETS, Key=asset, Body=code.getvalue())
    made = bootstrapped.create("fresh", body, RoleARN=role)
    (vpc,) = [identifier for name, identifier in made.items() if name.startswith("Vpc8")]
    ec2 = bootstrapped.yard.client("ec2")
    (group,) = ec2.describe_security_groups(
        Filters=[{"Name": "vpc-id", "Values": [vpc]}, {"Name": "group-name", "Values": ["default"]}]
    )["SecurityGroups"]
    assert (group["IpPermissions"], group["IpPermissionsEgress"]) == ([], [])
    bootstrapped.delete("fresh")
    assert vpc not in {one["VpcId"] for one in ec2.describe_vpcs()["Vpcs"]}


def test_narrow_execution_policies_stop_it_at_the_resource_that_they_leave_out(bootstrapped: Stacks) -> None:
    role = exec_role(bootstrapped.yard, S3_ALONE)
    with pytest.raises(AssertionError, match="is not stack_create_complete"):
        bootstrapped.create("fresh", TEMPLATE.read_text(encoding="utf-8"), RoleARN=role)
    first = bootstrapped.reasons("fresh")[0]
    assert "HandlerErrorCode: AccessDenied" in first
    assert "because no identity-based policy allows the" in first
