"""A role may do in a yard what its policies allow; refusals have AWS's words in every protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from slipway.jobs.words.errors import SlipwayError
from slipway.yard.endpoint import ACCOUNT, control
from tests.yard.asking import BY_ACCOUNT, client_of, make_role, policy, refusal
from tests.yard.conftest import REGION, RunningYard

ROLE = f"arn:aws:iam::{ACCOUNT}:role/worker"
SESSION = f"arn:aws:sts::{ACCOUNT}:assumed-role/worker/test"

Stated = Mapping[str, Any]


def allow(action: str | list[str], resource: str | list[str] = "*", **more: Any) -> Stated:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


class Worker:
    """Make a role of the yard, and clients with its credentials."""

    def __init__(self, yard: RunningYard, *statements: Stated) -> None:
        make_role(yard, "worker", BY_ACCOUNT, *statements)
        sts = yard.client("sts")
        self.yard = yard
        self.given = sts.assume_role(RoleArn=ROLE, RoleSessionName="test")["Credentials"]

    def client(self, service: str) -> Any:
        return client_of(self.yard, service, self.given)


def no_identity(action: str, on: str) -> str:
    return (
        f"User: {SESSION} is not authorized to perform: {action}{on} "
        f"because no identity-based policy allows the {action} action"
    )


# One service of each protocol: its call, its code and status, the resource in its refusal.
REFUSALS = {
    "ec2": ("ec2", "describe_instances", {}, "UnauthorizedOperation", 403, "ec2:DescribeInstances", ""),
    "json": (
        "logs",
        "create_log_stream",
        {"logGroupName": "/jobs", "logStreamName": "one"},
        "AccessDeniedException",
        400,
        "logs:CreateLogStream",
        f" on resource: arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/jobs:log-stream:one",
    ),
    "query": (
        "iam",
        "get_role",
        {"RoleName": "worker"},
        "AccessDenied",
        403,
        "iam:GetRole",
        f" on resource: {ROLE}",
    ),
    "rest-json": (
        "batch",
        "terminate_job",
        {"jobId": "j-1", "reason": "r"},
        "AccessDeniedException",
        403,
        "batch:TerminateJob",
        f" on resource: arn:aws:batch:{REGION}:{ACCOUNT}:job/j-1",
    ),
    "rest-xml": (
        "s3",
        "get_object",
        {"Bucket": "data", "Key": "a/b"},
        "AccessDenied",
        403,
        "s3:GetObject",
        ' on resource: "arn:aws:s3:::data/a/b"',
    ),
    "sns": (
        "sns",
        "publish",
        {"TopicArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:alarms", "Message": "m"},
        "AuthorizationError",
        403,
        "sns:Publish",
        f" on resource: arn:aws:sns:{REGION}:{ACCOUNT}:alarms",
    ),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_role_without_the_permission_is_refused_in_awss_words(yard: RunningYard, kind: str) -> None:
    service, operation, parameters, code, status, action, on = REFUSALS[kind]
    worker = Worker(yard)
    found = refusal(getattr(worker.client(service), operation), **parameters)
    assert (found["Code"], found["status"]) == (code, status)
    assert found["Message"].endswith(no_identity(action, on))


def test_the_refusal_is_listed_with_the_statement_that_would_allow_it(yard: RunningYard) -> None:
    worker = Worker(yard)
    refusal(worker.client("ssm").get_parameter, Name="/slipway/clusters/c6i")
    (denied,) = control(yard, "GET", "/denied")
    assert (denied["role"], denied["action"], denied["times"]) == ("worker", "ssm:GetParameter", 1)
    statement = {**denied["statement"], "Effect": "Allow"}
    yard.client("iam").put_role_policy(
        RoleName="worker", PolicyName="mended", PolicyDocument=policy(statement)
    )
    found = refusal(worker.client("ssm").get_parameter, Name="/slipway/clusters/c6i")
    assert found["Code"] == "ParameterNotFound"  # it may ask now


def test_the_holder_of_the_yards_own_key_may_do_everything(yard: RunningYard) -> None:
    yard.client("s3").create_bucket(Bucket="mine")
    assert control(yard, "GET", "/denied") == []


def test_a_role_learns_who_it_is_without_any_permission(yard: RunningYard) -> None:
    assert Worker(yard).client("sts").get_caller_identity()["Arn"] == SESSION


def test_a_role_that_trusts_only_a_service_is_not_assumed_by_a_person(yard: RunningYard) -> None:
    arn = make_role(yard, "nodes", {"Service": "ec2.amazonaws.com"})
    found = refusal(yard.client("sts").assume_role, RoleArn=arn, RoleSessionName="me")
    assert (found["Code"], found["status"]) == ("AccessDenied", 403)
    assert f"is not authorized to perform: sts:AssumeRole on resource: {arn}" in found["Message"]


def test_a_role_that_is_not_there_is_not_assumed(yard: RunningYard) -> None:
    found = refusal(yard.client("sts").assume_role, RoleArn=ROLE, RoleSessionName="me")
    assert found["Code"] == "AccessDenied"


def test_a_prefix_is_all_that_a_role_may_list_and_read(yard: RunningYard) -> None:
    s3 = yard.client("s3")
    s3.create_bucket(Bucket="data")
    for name in ("jobs/a", "code/b"):
        s3.put_object(Bucket="data", Key=name, Body=b"x")
    listing = allow("s3:ListBucket", "arn:aws:s3:::data", Condition={"StringLike": {"s3:prefix": ["jobs/*"]}})
    reading = allow("s3:GetObject", "arn:aws:s3:::data/jobs/*")
    own = Worker(yard, listing, reading).client("s3")
    assert own.list_objects_v2(Bucket="data", Prefix="jobs/")["KeyCount"] == 1
    assert own.get_object(Bucket="data", Key="jobs/a")["Body"].read() == b"x"
    assert refusal(own.list_objects_v2, Bucket="data", Prefix="code/")["Code"] == "AccessDenied"
    assert refusal(own.get_object, Bucket="data", Key="code/b")["Code"] == "AccessDenied"
    assert refusal(own.delete_objects, Bucket="data", Delete={"Objects": [{"Key": "jobs/a"}]})["Code"] == (
        "AccessDenied"
    )


def test_who_may_not_list_a_bucket_does_not_learn_that_an_object_is_missing(yard: RunningYard) -> None:
    yard.client("s3").create_bucket(Bucket="data")
    worker = Worker(yard, allow("s3:GetObject", "arn:aws:s3:::data/*"))
    found = refusal(worker.client("s3").get_object, Bucket="data", Key="none")
    assert found["Message"] == no_identity("s3:ListBucket", ' on resource: "arn:aws:s3:::data"')
    listing = policy(allow("s3:ListBucket", "arn:aws:s3:::data"))
    yard.client("iam").put_role_policy(RoleName="worker", PolicyName="list", PolicyDocument=listing)
    assert refusal(worker.client("s3").get_object, Bucket="data", Key="none")["Code"] == "NoSuchKey"


def test_an_encrypted_bucket_asks_for_its_key_as_well(yard: RunningYard) -> None:
    key = yard.client("kms").create_key()["KeyMetadata"]["Arn"]
    s3 = yard.client("s3")
    s3.create_bucket(Bucket="data")
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}
    s3.put_bucket_encryption(Bucket="data", ServerSideEncryptionConfiguration={"Rules": [rule]})
    own = Worker(yard, allow("s3:*")).client("s3")
    found = refusal(own.put_object, Bucket="data", Key="a", Body=b"x")
    assert found["Message"] == no_identity("kms:GenerateDataKey", f" on resource: {key}")
    through = {"StringEquals": {"kms:ViaService": f"s3.{REGION}.amazonaws.com"}}
    use = allow(["kms:GenerateDataKey", "kms:Decrypt"], key, Condition=through)
    yard.client("iam").put_role_policy(RoleName="worker", PolicyName="key", PolicyDocument=policy(use))
    own.put_object(Bucket="data", Key="a", Body=b"x")
    assert own.get_object(Bucket="data", Key="a")["Body"].read() == b"x"


def test_a_secret_whose_policy_denies_all_others_opens_to_its_role_alone(yard: RunningYard) -> None:
    secrets = yard.client("secretsmanager")
    arn = secrets.create_secret(Name="ca", SecretString="s")["ARN"]
    only = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "secretsmanager:GetSecretValue",
        "Resource": "*",
        "Condition": {"StringNotEquals": {"aws:PrincipalArn": f"arn:aws:iam::{ACCOUNT}:role/nodes"}},
    }
    secrets.put_resource_policy(SecretId=arn, ResourcePolicy=policy(only))
    own = Worker(yard, allow("secretsmanager:GetSecretValue")).client("secretsmanager")
    found = refusal(own.get_secret_value, SecretId="ca")
    assert found["Message"].endswith("with an explicit deny in a resource-based policy")


def test_a_bucket_policy_with_a_condition_stands_and_is_judged(yard: RunningYard) -> None:
    s3 = yard.client("s3")
    s3.create_bucket(Bucket="data")
    tls = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::data/*"}
    old_tls = {**tls, "Condition": {"NumericLessThan": {"s3:TlsVersion": "1.2"}}}
    others = {**tls, "Action": "s3:PutObject"}
    s3.put_bucket_policy(Bucket="data", Policy=policy(old_tls, others))
    s3.put_object(Bucket="data", Key="a", Body=b"x")  # by an administrator
    own = Worker(yard, allow("s3:*")).client("s3")
    assert own.get_object(Bucket="data", Key="a")["Body"].read() == b"x"
    found = refusal(own.put_object, Bucket="data", Key="a", Body=b"y")
    assert found["Message"].endswith("with an explicit deny in a resource-based policy")


def test_a_call_that_hands_over_a_role_needs_to_be_allowed_to(yard: RunningYard) -> None:
    job = make_role(yard, "job", {"Service": "ecs-tasks.amazonaws.com"})
    own = Worker(yard, allow("batch:*")).client("batch")
    container = {
        "image": "busybox",
        "jobRoleArn": job,
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "128"}],
    }
    wanted = {"jobDefinitionName": "d", "type": "container", "containerProperties": container}
    found = refusal(own.register_job_definition, **wanted)
    assert found["Message"] == no_identity("iam:PassRole", f" on resource: {job}")
    to_tasks = {"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}}
    passing = policy(allow("iam:PassRole", job, Condition=to_tasks))
    yard.client("iam").put_role_policy(RoleName="worker", PolicyName="pass", PolicyDocument=passing)
    assert own.register_job_definition(**wanted)["revision"] == 1


def test_deleting_a_version_needs_the_action_for_versions(yard: RunningYard) -> None:
    s3 = yard.client("s3")
    s3.create_bucket(Bucket="data")
    s3.put_bucket_versioning(Bucket="data", VersioningConfiguration={"Status": "Enabled"})
    version = s3.put_object(Bucket="data", Key="a", Body=b"")["VersionId"]
    worker = Worker(yard, allow("s3:DeleteObject", "arn:aws:s3:::data/*"))
    own = worker.client("s3")
    own.delete_objects(Bucket="data", Delete={"Objects": [{"Key": "a"}]})
    versions = {"Objects": [{"Key": "a", "VersionId": version}]}
    found = refusal(own.delete_objects, Bucket="data", Delete=versions)
    assert "s3:DeleteObjectVersion" in found["Message"]


def test_a_boundary_limits_a_role(yard: RunningYard) -> None:
    worker = Worker(yard, allow("*"))
    iam = yard.client("iam")
    limit = iam.create_policy(PolicyName="limit", PolicyDocument=policy(allow("logs:*")))["Policy"]["Arn"]
    iam.put_role_permissions_boundary(RoleName="worker", PermissionsBoundary=limit)
    found = refusal(worker.client("ssm").get_parameter, Name="x")
    assert found["Message"].endswith("because no permissions boundary allows the ssm:GetParameter action")
    assert worker.client("logs").describe_log_groups()["logGroups"] == []


def test_what_no_table_names_is_judged_on_any_resource(yard: RunningYard) -> None:
    worker = Worker(yard, allow("events:*", f"arn:aws:events:{REGION}:{ACCOUNT}:rule/*"))
    found = refusal(worker.client("events").put_events, Entries=[{"Source": "a"}])
    assert found["Code"] == "AccessDeniedException"


def test_a_roles_unused_actions_are_listed(yard: RunningYard) -> None:
    worker = Worker(yard, allow(["logs:DescribeLogGroups", "logs:CreateLogStream"]))
    worker.client("logs").describe_log_groups()
    rows = {row["action"]: row["used"] for row in control(yard, "GET", "/permissions")}
    assert rows == {"logs:DescribeLogGroups": 1, "logs:CreateLogStream": 0}


def test_the_caller_can_be_limited_to_a_role_and_freed_again(yard: RunningYard) -> None:
    arn = make_role(yard, "developer", BY_ACCOUNT, allow("logs:Describe*"))
    assert control(yard, "POST", "/caller-role", "developer") == arn
    assert yard.client("logs").describe_log_groups()["logGroups"] == []
    assert refusal(yard.client("ssm").get_parameter, Name="x")["Code"] == "AccessDeniedException"
    assert "assumed-role/developer/" in yard.client("sts").get_caller_identity()["Arn"]
    assert control(yard, "POST", "/caller-role", "") == ""
    assert refusal(yard.client("ssm").get_parameter, Name="x")["Code"] == "ParameterNotFound"


def test_a_caller_cannot_be_given_a_role_that_is_not_there(yard: RunningYard) -> None:
    with pytest.raises(SlipwayError, match="there is no role 'none' in the yard; there are: "):
        control(yard, "POST", "/caller-role", "none")
