"""CloudFormation makes a stack with the given role, and may do no more than that role."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from slipway.yard.endpoint import ACCOUNT, control
from tests.yard.asking import BY_ACCOUNT, make_role, policy, refusal
from tests.yard.cloudformation.stacks import Stacks
from tests.yard.conftest import RunningYard

CLOUDFORMATION = {"Service": "cloudformation.amazonaws.com"}
SESSION = f"arn:aws:sts::{ACCOUNT}:assumed-role/exec/AWSCloudFormation"
BUCKET = {"Type": "AWS::S3::Bucket"}
NODES = {
    "Type": "AWS::IAM::Role",
    "DependsOn": "Bucket",
    "Properties": {
        "RoleName": "nodes",
        "AssumeRolePolicyDocument": {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ],
        },
    },
}


def allow(*actions: str, resource: str = "*") -> Mapping[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource}


def exec_role(yard: RunningYard, *statements: Mapping[str, Any]) -> str:
    """Make a role for CloudFormation as `cdk bootstrap` does, with these policies."""
    return make_role(yard, "exec", CLOUDFORMATION, *statements)


def let(yard: RunningYard, *statements: Mapping[str, Any]) -> None:
    """Give the role another policy."""
    yard.client("iam").put_role_policy(RoleName="exec", PolicyName="own", PolicyDocument=policy(*statements))


def failure(stacks: Stacks, body: Mapping[str, Any], role: str, **parameters: Any) -> str:
    """Create a stack that must fail; return the first reason."""
    with pytest.raises(AssertionError, match="is not stack_create_complete"):
        stacks.create("s", body, RoleARN=role, **parameters)
    return stacks.reasons("s")[0]


def test_a_role_that_is_too_narrow_is_refused_with_the_resource_named(stacks: Stacks) -> None:
    role = exec_role(stacks.yard, allow("s3:*"))
    found = failure(stacks, {"Bucket": BUCKET, "Nodes": NODES}, role)
    assert found.startswith("Nodes: Resource handler returned message:")
    assert (
        f"User: {SESSION} is not authorized to perform: iam:CreateRole on resource: "
        f"arn:aws:iam::{ACCOUNT}:role/nodes because no identity-based policy allows the iam:CreateRole action"
    ) in found
    assert "HandlerErrorCode: AccessDenied" in found
    (stack,) = stacks.cloudformation.describe_stacks(StackName="s")["Stacks"]
    assert (stack["StackStatus"], stack["RoleARN"]) == ("ROLLBACK_COMPLETE", role)
    assert stacks.yard.client("s3").list_buckets()["Buckets"] == []
    (denied,) = control(stacks.yard, "GET", "/denied")
    assert (denied["role"], denied["action"]) == ("exec", "iam:CreateRole")


def test_a_role_that_allows_what_awss_handlers_need_makes_changes_and_deletes_a_stack(stacks: Stacks) -> None:
    role = exec_role(
        stacks.yard,
        allow("s3:CreateBucket", "s3:DeleteBucket", "s3:ListBucket", "s3:PutBucketTagging"),
        allow(
            "iam:CreateRole",
            "iam:DeleteRole",
            "iam:GetRole",
            "iam:List*",
            resource=f"arn:aws:iam::{ACCOUNT}:role/nodes",
        ),
    )
    stacks.create("s", {"Bucket": BUCKET, "Nodes": NODES}, RoleARN=role)
    tagged = {**BUCKET, "Properties": {"Tags": [{"Key": "team", "Value": "ml"}]}}
    stacks.update("s", {"Bucket": tagged, "Nodes": NODES})
    stacks.delete("s")
    assert control(stacks.yard, "GET", "/denied") == []


def test_a_role_that_hands_out_roles_needs_permission_to_pass_them(stacks: Stacks) -> None:
    role = exec_role(stacks.yard, allow("lambda:*"))
    own = make_role(stacks.yard, "own", {"Service": "lambda.amazonaws.com"})
    properties = {
        "Role": own,
        "Code": {"ZipFile": "def handler(event, context): pass"},
        "Runtime": "python3.12",
        "Handler": "index.handler",
    }
    found = failure(stacks, {"Function": {"Type": "AWS::Lambda::Function", "Properties": properties}}, role)
    assert f"iam:PassRole on resource: {own}" in found


FUNCTION = f"arn:aws:lambda:us-east-1:{ACCOUNT}:function:logs"
LOGS = {"ServiceToken": FUNCTION, "LogGroupName": "/kept", "RetentionInDays": 7}


@pytest.mark.parametrize(
    ("resource", "wanted", "allowed"),
    [
        (
            {"Type": "AWS::Athena::WorkGroup", "Properties": {"Name": "queries"}},
            "athena:CreateWorkGroup",
            allow("athena:Create*", resource=f"arn:aws:athena:*:{ACCOUNT}:workgroup/*"),
        ),
        (
            {"Type": "Custom::LogRetention", "Properties": LOGS},
            f"lambda:InvokeFunction on resource: {FUNCTION}",
            allow("lambda:InvokeFunction"),
        ),
        (
            {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
            "is not authorized to perform: ec2:CreateVpc",
            allow("ec2:*"),
        ),
    ],
    ids=["a type that is only recorded", "a function of a custom resource", "a type of EC2's"],
)
def test_every_type_needs_its_own_permission_and_no_other(
    stacks: Stacks, resource: Mapping[str, Any], wanted: str, allowed: Mapping[str, Any]
) -> None:
    role = exec_role(stacks.yard, allow("s3:*"))
    found = failure(stacks, {"Kept": resource}, role)
    assert wanted in found
    assert "HandlerErrorCode: AccessDenied" in found or "Custom" in str(resource)
    stacks.delete("s")
    let(stacks.yard, allowed)
    assert set(stacks.create("s", {"Kept": resource}, RoleARN=role)) == {"Kept"}


@pytest.mark.parametrize("principal", [{"Service": "ec2.amazonaws.com"}, None])
def test_a_role_that_cloudformation_may_not_assume_is_refused_at_once(
    stacks: Stacks, principal: Mapping[str, str] | None
) -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/exec"
    if principal:
        make_role(stacks.yard, "exec", principal)
    body = json.dumps({"Resources": {"Bucket": BUCKET}})
    found = refusal(stacks.cloudformation.create_stack, StackName="s", TemplateBody=body, RoleARN=role)
    assert found["Message"] == f"Role {role} is invalid or cannot be assumed"
    assert stacks.cloudformation.describe_stacks()["Stacks"] == []


def test_a_stack_whose_role_is_gone_is_deleted_with_another(stacks: Stacks) -> None:
    stacks.create("s", {"Bucket": BUCKET}, RoleARN=exec_role(stacks.yard, allow("s3:*")))
    stacks.yard.client("iam").delete_role_policy(RoleName="exec", PolicyName="own")
    stacks.yard.client("iam").delete_role(RoleName="exec")
    found = refusal(stacks.cloudformation.delete_stack, StackName="s")
    assert "is invalid or cannot be assumed" in found["Message"]
    other = make_role(stacks.yard, "other", CLOUDFORMATION, allow("s3:*"))
    stacks.cloudformation.delete_stack(StackName="s", RoleARN=other)
    stacks.cloudformation.get_waiter("stack_delete_complete").wait(StackName="s")
    assert stacks.yard.client("s3").list_buckets()["Buckets"] == []


def test_a_template_reads_no_parameter_that_its_role_may_not(stacks: Stacks) -> None:
    stacks.yard.client("ssm").put_parameter(Name="/base/name", Value="from-ssm", Type="String")
    role = exec_role(stacks.yard, allow("s3:*"))
    name = {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/base/name"}
    body = {"Parameters": {"Name": name}, "Resources": {"Bucket": BUCKET}}
    found = refusal(
        stacks.cloudformation.create_stack, StackName="s", TemplateBody=json.dumps(body), RoleARN=role
    )
    assert "is not authorized to perform: ssm:GetParameters on resource" in found["Message"]
    resolved = {**BUCKET, "Properties": {"BucketName": "{{resolve:ssm:/base/name}}"}}
    assert "Bucket: " in (reason := failure(stacks, {"Bucket": resolved}, role))
    assert "ssm:GetParameters" in reason


def test_a_nested_stack_is_made_with_its_parents_role(stacks: Stacks) -> None:
    s3 = stacks.yard.client("s3")
    s3.create_bucket(Bucket="templates")
    child = {"Resources": {"Nodes": {**NODES, "DependsOn": []}}}
    s3.put_object(Bucket="templates", Key="child.json", Body=json.dumps(child).encode())
    url = "https://templates.s3.us-east-1.amazonaws.com/child.json"
    nested = {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": url}}
    role = exec_role(stacks.yard, allow("cloudformation:*", "s3:GetObject"))
    assert f"iam:PassRole on resource: {role}" in failure(stacks, {"Child": nested}, role)
    stacks.delete("s")
    let(stacks.yard, allow("cloudformation:*", "s3:GetObject"), allow("iam:PassRole", resource=role))
    assert "iam:CreateRole" in failure(stacks, {"Child": nested}, role)


def test_a_role_makes_a_key_and_its_alias_though_neither_has_a_policy_before(stacks: Stacks) -> None:
    everybody = {"Effect": "Allow", "Principal": BY_ACCOUNT, "Action": "kms:*", "Resource": "*"}
    document = json.loads(policy(everybody))
    key = {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": document, "EnableKeyRotation": True}}
    alias = {"AliasName": "alias/data", "TargetKeyId": {"Ref": "Key"}}
    body = {"Key": key, "Alias": {"Type": "AWS::KMS::Alias", "Properties": alias}}
    stacks.create("s", body, RoleARN=exec_role(stacks.yard, allow("kms:*")))
    stacks.delete("s")
