"""Types that are made by API calls keep their promises, and a template's names become the API's."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.yard.cloudformation.resources.api import generated
from slipway.yard.cloudformation.resources.scope import input_shape
from slipway.yard.cloudformation.resources.shapes import like, to_request
from slipway.yard.errors import ApiError
from tests.yard.cloudformation.resources.world import TRUST, World, allow, new_context

NO_SUCH_POLICY = "arn:aws:iam::aws:policy/NoSuchPolicy"


def role_names(world: World) -> set[str]:
    return {role["RoleName"] for role in world.client("iam").list_roles()["Roles"]}


def test_a_creation_that_fails_half_way_leaves_nothing_behind(world: World) -> None:
    before = role_names(world)
    policies = [{"PolicyName": "data", "PolicyDocument": allow("s3:*")}]
    with pytest.raises(ApiError, match="NoSuchEntity"):
        world.make(
            "AWS::IAM::Role",
            AssumeRolePolicyDocument=TRUST,
            Policies=policies,
            ManagedPolicyArns=[NO_SUCH_POLICY],
        )
    assert role_names(world) == before


def test_an_update_that_fails_half_way_is_undone(world: World) -> None:
    role = world.make("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST, Description="first")
    with pytest.raises(ApiError, match="NoSuchEntity"):
        role.update(Description="second", ManagedPolicyArns=[NO_SUCH_POLICY])
    assert world.client("iam").get_role(RoleName=role.id)["Role"]["Description"] == "first"


def test_what_nothing_carries_out_or_the_service_refuses_is_refused(world: World) -> None:
    with pytest.raises(ApiError, match="does not emulate the s3 property AbacStatus"):
        world.make("AWS::S3::Bucket", AbacStatus="Enabled")
    vpc = world.make("AWS::EC2::VPC", CidrBlock="10.50.0.0/16", Tags=[{"Key": "a", "Value": "1"}])
    with pytest.raises(ApiError, match="does not change in place the ec2 property CidrBlock"):
        vpc.update(CidrBlock="10.51.0.0/16")
    with pytest.raises(ApiError) as refused:
        world.make("AWS::EC2::Subnet", VpcId="vpc-00000000000000000", CidrBlock="10.0.0.0/24")
    assert refused.value.code == "InvalidVpcID.NotFound"
    vpc.update(Tags=[{"Key": "b", "Value": "2"}])
    (found,) = world.client("ec2").describe_vpcs(VpcIds=[vpc.id])["Vpcs"]
    assert found["Tags"] == [{"Key": "b", "Value": "2"}], "tags that were taken away are gone"
    shape = input_shape(world.client("batch"), "create_compute_environment")
    with pytest.raises(ApiError, match="ComputeResources: no parameter for the property Sparkle"):
        to_request(shape, {"ComputeResources": {"Sparkle": 1}})


def test_what_was_changed_or_taken_away_by_hand_is_drift_and_what_was_deleted_is_gone(world: World) -> None:
    parameter = world.make("AWS::SSM::Parameter", Type="String", Value="one")
    world.client("ssm").put_parameter(Name=parameter.id, Value="two", Overwrite=True)
    assert parameter.read() == {"Type": "String", "Value": "two"}
    logs, group = world.client("logs"), world.make("AWS::Logs::LogGroup", RetentionInDays=30)
    group.update(RetentionInDays=None)
    (found,) = logs.describe_log_groups(logGroupNamePrefix=group.id)["logGroups"]
    assert "retentionInDays" not in found, "it is what the service does by itself"
    group.update(RetentionInDays=30)
    logs.delete_retention_policy(logGroupName=group.id)
    assert group.read() == {}
    logs.delete_log_group(logGroupName=group.id)
    assert group.read() is None
    group.delete()


def test_a_managed_policy_can_change_more_often_than_iam_keeps_versions(world: World) -> None:
    policy = world.make("AWS::IAM::ManagedPolicy", PolicyDocument=allow("s3:0"))
    for number in range(1, 8):
        policy.update(PolicyDocument=allow(f"s3:{number}"))
    iam = world.client("iam")
    version = iam.get_policy(PolicyArn=policy.id)["Policy"]["DefaultVersionId"]
    document = iam.get_policy_version(PolicyArn=policy.id, VersionId=version)["PolicyVersion"]["Document"]
    assert document == allow("s3:7")


def test_a_renamed_inline_policy_does_not_stay_under_its_old_name(world: World) -> None:
    role = world.role()
    policy = world.make("AWS::IAM::Policy", PolicyName="old", PolicyDocument=allow("s3:*"), Roles=[role.id])
    policy.update(PolicyName="new")
    assert world.client("iam").list_role_policies(RoleName=role.id)["PolicyNames"] == ["new"]


def test_a_launch_template_gets_a_new_version_and_keeps_its_default(world: World) -> None:
    template = world.make("AWS::EC2::LaunchTemplate", LaunchTemplateData={"InstanceType": "c6i.large"})
    assert template.attribute("LatestVersionNumber") == "1"
    template.update(LaunchTemplateData={"InstanceType": "c6i.xlarge"})
    assert template.attribute("LatestVersionNumber") == "2"
    assert template.attribute("DefaultVersionNumber") == "1"


def test_a_generated_secret_is_put_where_the_template_wants_it(world: World) -> None:
    import json

    wanted: dict[str, Any] = {
        "SecretStringTemplate": '{"user": "slurm"}',
        "GenerateStringKey": "password",
        "PasswordLength": 24,
    }
    secret = world.make("AWS::SecretsManager::Secret", GenerateSecretString=wanted)
    value = json.loads(world.client("secretsmanager").get_secret_value(SecretId=secret.id)["SecretString"])
    assert value["user"] == "slurm"
    assert len(value["password"]) == 24


def test_a_generated_name_is_cut_before_its_random_end_and_written_small_where_the_service_wants_it() -> None:
    context = new_context("A" * 100)
    suffix = context.default_name.rpartition("-")[2]
    name = generated(context, 64)
    assert len(name) == 64
    assert name.startswith("trial-AAA")
    assert name.endswith(f"-{suffix}")
    bucket = new_context("Bucket")
    assert generated(bucket, 63, lower=True) == bucket.default_name.lower()


# The two translations between a template's names and an API's.


@pytest.mark.parametrize(
    ("service", "operation", "properties", "request_"),
    [
        ("batch", "create_job_queue", {"Priority": "5"}, {"priority": 5}),
        (
            "kms",
            "create_key",
            {"Tags": [{"Key": "a", "Value": "b"}]},
            {"Tags": [{"TagKey": "a", "TagValue": "b"}]},
        ),
        ("logs", "create_log_group", {"Tags": [{"Key": "a", "Value": "b"}]}, {"tags": {"a": "b"}}),
        ("ssm", "put_parameter", {"Tags": {"a": "b"}}, {"Tags": [{"Key": "a", "Value": "b"}]}),
        ("kms", "create_key", {"MultiRegion": "true"}, {"MultiRegion": True}),
        ("kms", "create_key", {"Policy": {"Statement": []}}, {"Policy": '{"Statement": []}'}),
        ("cloudwatch", "put_metric_alarm", {"Threshold": "0.5"}, {"Threshold": 0.5}),
        ("ssm", "put_parameter", {"Value": 5}, {"Value": "5"}),
    ],
)
def test_properties_become_parameters_by_the_shape_of_the_request(
    world: World, service: str, operation: str, properties: dict[str, Any], request_: dict[str, Any]
) -> None:
    shape = input_shape(world.client(service), operation)
    assert to_request(shape, properties) == request_


@pytest.mark.parametrize(
    ("template", "live", "seen"),
    [
        ({"MaxvCpus": 4}, {"maxvCpus": 8, "minvCpus": 0}, {"MaxvCpus": 8}),
        ("90", 90, "90"),
        (True, "true", True),
        ([{"Key": "a"}, {"Key": "b"}], [{"Key": "b"}, {"Key": "a"}], [{"Key": "a"}, {"Key": "b"}]),
        (["x"], ["y", "x"], ["x", "y"]),
        ([{"Key": "a", "Value": "1"}], {"a": "2"}, [{"Key": "a", "Value": "2"}]),
        ({"a": "1"}, [{"Key": "a", "Value": "2"}], {"a": "2"}),
        ({"Statement": []}, '{"Statement": [1]}', {"Statement": [1]}),
        ({"gone": 1}, {}, {}),
    ],
)
def test_an_answer_is_seen_in_the_words_and_order_of_the_template(
    template: Any, live: Any, seen: Any
) -> None:
    assert like(template, live) == seen
