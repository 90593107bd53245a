"""The calls of the roads' roles need the right actions on the right resources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.permissions.calls.asked import AskedCall, NotJudged
from slipway.yard.permissions.calls.needs import needs
from slipway.yard.permissions.roles import judge_service

# Services that deliver in their own name are checked by the policies in a yard.


def topic(*statements: dict[str, object]) -> str:
    from moto.sns.models import sns_backends

    made = sns_backends[ACCOUNT][REGION].create_topic("alarms")
    if statements:
        made.policy = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    return str(made.arn)


def allow(service: str, **condition: object) -> dict[str, object]:
    stated = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sns:Publish", "Resource": "*"}
    return {**stated, **({"Condition": condition} if condition else {})}


def test_an_alarm_publishes_through_a_topics_default_policy() -> None:
    keys = {"aws:SourceOwner": ACCOUNT}
    assert judge_service("cloudwatch.amazonaws.com", "SNS:Publish", topic(), keys).is_allowed


def test_a_policy_of_ones_own_replaces_the_default_one() -> None:
    keys = {"aws:SourceOwner": ACCOUNT}
    arn = topic(allow("events.amazonaws.com"))
    assert judge_service("events.amazonaws.com", "sns:Publish", arn).is_allowed
    assert not judge_service("cloudwatch.amazonaws.com", "sns:Publish", arn, keys).is_allowed


def test_a_service_that_does_not_say_whom_it_acts_for_fails_the_condition() -> None:
    from moto.kms.models import kms_backends

    own = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": ["kms:Decrypt", "kms:GenerateDataKey*"],
        "Resource": "*",
        "Condition": {"StringEquals": {"aws:SourceAccount": ACCOUNT}},
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [own]})
    key = kms_backends[ACCOUNT][REGION].create_key(document, "ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT", "", None)
    told = {"aws:SourceAccount": ACCOUNT}
    assert judge_service("events.amazonaws.com", "kms:GenerateDataKey", key.arn, told).is_allowed
    assert not judge_service("events.amazonaws.com", "kms:GenerateDataKey", key.arn).is_allowed


REGION = "us-east-1"
SOME_ID = "00000000-0000-0000-0000-000000000000"
EC2 = f"arn:aws:ec2:{REGION}:{ACCOUNT}:"
LOGS = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:"


@pytest.fixture(autouse=True)
def moto() -> Iterator[None]:
    with mock_aws():
        yield


def needed(service: str, operation: str, **parameters: Any) -> list[tuple[str, str]]:
    call = AskedCall(service=service, operation=operation, region=REGION, parameters=parameters, user_id="me")
    return [(need.action, need.resource) for need in needs(call)]


def of(service: str, resource: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "resource"),
    [
        ("sqs", "CreateQueue", {"QueueName": "q"}, of("sqs", "q")),
        ("lambda", "CreateFunction", {"FunctionName": "f"}, of("lambda", "function:f")),
        ("ds", "ResetUserPassword", {"DirectoryId": "d-1", "UserName": "u"}, of("ds", "directory/d-1")),
        ("cognito-idp", "DescribeUserPool", {"UserPoolId": "us_x"}, of("cognito-idp", "userpool/us_x")),
        ("dynamodb", "CreateTable", {"TableName": "t"}, of("dynamodb", "table/t")),
        ("s3", "GetBucketLocation", {"Bucket": "b", "Key": ""}, "arn:aws:s3:::b"),
        ("logs", "DescribeLogGroups", {}, f"{LOGS}:log-stream:"),
        ("logs", "PutLogEvents", {"logGroupName": "/g", "logStreamName": "s"}, f"{LOGS}/g:log-stream:s"),
        ("ssm", "GetParameter", {"Name": "/slipway/c6i"}, of("ssm", "parameter/slipway/c6i")),
        ("ssm", "GetParameter", {"Name": "/aws/service/x"}, f"arn:aws:ssm:{REGION}::parameter/aws/service/x"),
        ("ec2", "DescribeInstances", {}, "*"),
        ("cloudwatch", "PutMetricData", {"Namespace": "Slipway"}, "*"),
        ("ecr", "GetAuthorizationToken", {}, "*"),
        ("ecr", "PutImage", {"repositoryName": "slipway/gaudi"}, of("ecr", "repository/slipway/gaudi")),
        ("codebuild", "BatchGetBuilds", {"ids": ["images:1"]}, of("codebuild", "project/images")),
        ("batch", "TerminateJob", {"jobId": "j"}, of("batch", "job/j")),
    ],
)
def test_a_call_needs_one_action_on_one_resource(
    service: str, operation: str, parameters: dict[str, Any], resource: str
) -> None:
    assert needed(service, operation, **parameters) == [(f"{service}:{operation}", resource)]


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "action", "resource"),
    [
        ("s3", "ListObjectsV2", {"Bucket": "b", "Key": ""}, "s3:ListBucket", "arn:aws:s3:::b"),
        ("s3", "HeadObject", {"Bucket": "b", "Key": "k"}, "s3:GetObject", "arn:aws:s3:::b/k"),
        ("s3", "UploadPart", {"Bucket": "b", "Key": "k"}, "s3:PutObject", "arn:aws:s3:::b/k"),
        (
            "efs",
            "DescribeMountTargets",
            {"FileSystemId": "fs-1"},
            "elasticfilesystem:DescribeMountTargets",
            of("elasticfilesystem", "file-system/fs-1"),
        ),
    ],
)
def test_a_call_needs_an_action_that_has_another_name(
    service: str, operation: str, parameters: dict[str, Any], action: str, resource: str
) -> None:
    assert needed(service, operation, **parameters) == [(action, resource)]


def test_a_job_is_submitted_by_the_leave_of_its_definition_and_its_queue() -> None:
    asked = needed("batch", "SubmitJob", jobName="j", jobQueue="q", jobDefinition="d:3")
    assert asked == [
        ("batch:SubmitJob", of("batch", "job-definition/d:3")),
        ("batch:SubmitJob", of("batch", "job-queue/q")),
    ]


def test_tags_of_a_job_need_an_action_on_it_and_on_its_definition() -> None:
    """AWS refused SubmitJob for batch:TagResource on a job definition: wri/gfw-data-api#175."""
    asked = needed("batch", "SubmitJob", jobName="j", jobQueue="q", jobDefinition="d:3", tags={"team": "x"})
    tagged = [resource for action, resource in asked if action == "batch:TagResource"]
    assert tagged == [of("batch", "job/*"), of("batch", "job-definition/d:3")]


def test_tags_of_a_new_job_need_an_action_of_their_own() -> None:
    tagged = {"TrainingJobName": "a", "Tags": [{"Key": "team", "Value": "x"}]}
    call = AskedCall(service="sagemaker", operation="CreateTrainingJob", region=REGION, parameters=tagged)
    (adds,) = (need for need in needs(call) if need.action == "sagemaker:AddTags")
    assert adds.resource == of("sagemaker", "training-job/a")
    assert adds.keys["aws:requesttag/team"] == ("x",)
    plain = needed("sagemaker", "CreateTrainingJob", TrainingJobName="a")
    assert "sagemaker:AddTags" not in [action for action, _ in plain]


def test_starting_a_runbook_needs_its_document_and_the_execution_that_begins() -> None:
    asked = needed("ssm", "StartAutomationExecution", DocumentName="slipway-dl1-cancel")
    assert asked == [
        (
            "ssm:StartAutomationExecution",
            of("ssm", "automation-execution/00000000-0000-0000-0000-000000000000"),
        ),
        ("ssm:StartAutomationExecution", of("ssm", "document/slipway-dl1-cancel")),
    ]


def test_a_command_needs_its_document_and_its_instances() -> None:
    asked = needed("ssm", "SendCommand", DocumentName="AWS-RunShellScript", InstanceIds=["i-1", "i-2"])
    assert asked == [
        ("ssm:SendCommand", f"arn:aws:ssm:{REGION}::document/AWS-RunShellScript"),
        ("ssm:SendCommand", f"{EC2}instance/i-1"),
        ("ssm:SendCommand", f"{EC2}instance/i-2"),
    ]


def test_a_session_needs_its_document_and_its_instance() -> None:
    asked = needed("ssm", "StartSession", Target="i-1", DocumentName="AWS-StartSSHSession")
    stream = ("ssmmessages:OpenDataChannel", of("ssm", f"session/me-{SOME_ID}"))
    assert asked == [
        ("ssm:StartSession", f"arn:aws:ssm:{REGION}::document/AWS-StartSSHSession"),
        ("ssm:StartSession", f"{EC2}instance/i-1"),
        stream,
    ]
    assert needed("ssm", "StartSession", Target="i-1") == [("ssm:StartSession", f"{EC2}instance/i-1"), stream]


def test_who_asks_for_all_stacks_lists_them_too() -> None:
    one = of("cloudformation", f"stack/dl1/{SOME_ID}")
    assert needed("cloudformation", "DescribeStacks", StackName="dl1") == [
        ("cloudformation:DescribeStacks", one)
    ]
    assert needed("cloudformation", "DescribeStacks") == [
        ("cloudformation:DescribeStacks", "*"),
        ("cloudformation:ListStacks", "*"),
    ]


def test_a_key_needs_the_instance_that_it_is_sent_to() -> None:
    asked = needed("ec2-instance-connect", "SendSSHPublicKey", InstanceId="i-1", InstanceOSUser="slipway")
    assert asked == [("ec2-instance-connect:SendSSHPublicKey", f"{EC2}instance/i-1")]


def test_an_instance_is_started_from_an_image_into_a_subnet_with_tags() -> None:
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "CreatedBy", "Value": "me"}]}]
    asked = needed("ec2", "RunInstances", ImageId="ami-1", SubnetId="subnet-1", TagSpecifications=tags)
    run = [resource for action, resource in asked if action == "ec2:RunInstances"]
    image = f"arn:aws:ec2:{REGION}::image/ami-1"
    made = [f"{EC2}{kind}/*" for kind in ("instance", "volume", "network-interface")]
    assert run == [image, f"{EC2}subnet/subnet-1", *made]
    assert ("ec2:CreateTags", f"{EC2}instance/*") in asked


def test_a_copy_reads_its_source_and_writes_its_target() -> None:
    call = AskedCall(
        service="s3",
        operation="CopyObject",
        region=REGION,
        parameters={"Bucket": "to", "Key": "k"},
        headers={"x-amz-copy-source": "/from/a%20b?versionId=1"},
    )
    assert [(need.action, need.resource) for need in needs(call)] == [
        ("s3:PutObject", "arn:aws:s3:::to/k"),
        ("s3:GetObject", "arn:aws:s3:::from/a b"),
    ]


@pytest.mark.parametrize(
    ("identifier", "kind"),
    [
        ("pcx-1", "vpc-peering-connection"),
        ("tgw-attach-1", "transit-gateway-attachment"),
        ("i-1", "instance"),
    ],
)
def test_a_tag_needs_leave_for_what_it_is_put_on(identifier: str, kind: str) -> None:
    asked = needed("ec2", "CreateTags", Resources=[identifier], Tags=[{"Key": "Name", "Value": "x"}])
    assert asked == [("ec2:CreateTags", f"{EC2}{kind}/{identifier}")]


def test_an_unknown_action_is_not_guessed() -> None:
    with pytest.raises(NotJudged):
        needed("batch", "InventJob")


def test_who_makes_a_function_passes_it_its_role() -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/worker"
    assert ("iam:PassRole", role) in needed("lambda", "CreateFunction", FunctionName="f", Role=role)
