"""The yard refuses what AWS would refuse, and accepts what AWS accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.gateway import validation
from tests.yard.asking import policy, refusal, send_signed
from tests.yard.conftest import RunningYard

EC2 = {"Service": "ec2.amazonaws.com"}
ROLE = f"arn:aws:iam::{ACCOUNT}:role/a"


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "code", "said"),
    [
        (
            "sagemaker",
            "create_notebook_instance_lifecycle_config",
            {"NotebookInstanceLifecycleConfigName": "under_score"},
            "ValidationException",
            "'under_score' at 'NotebookInstanceLifecycleConfigName'",
        ),
        (
            "iam",
            "create_role",
            {"RoleName": "bad name", "AssumeRolePolicyDocument": "{}"},
            "ValidationError",
            r"'bad name' at 'RoleName' failed to satisfy constraint: Member must satisfy regular expression",
        ),
        (
            "budgets",
            "create_budget",
            {
                "AccountId": ACCOUNT,
                "Budget": {"BudgetName": "b", "TimeUnit": "MONTHLY", "BudgetType": "COSTS"},
            },
            "ValidationException",
            "'COSTS' at 'Budget.BudgetType' failed to satisfy constraint: Member must satisfy enum value set",
        ),
        (
            "pcs",
            "create_cluster",
            {
                "clusterName": "a b",
                "scheduler": {"type": "SLURM", "version": "24.11"},
                "size": "SMALL",
                "networking": {},
            },
            "ValidationException",
            "'a b' at 'clusterName'",
        ),
        (
            "ec2",
            "create_placement_group",
            {"GroupName": "a", "Strategy": "close"},
            "InvalidParameterValue",
            "'close' at 'Strategy' failed to satisfy constraint: Member must satisfy enum value set: [",
        ),
        (
            "ec2",
            "run_instances",
            {"MinCount": 1, "MaxCount": 1, "InstanceType": "dl9.large", "ImageId": "ami-12c6146b"},
            "InvalidParameterValue",
            "'dl9.large' at 'InstanceType'",
        ),
        (
            "logs",
            "create_log_group",
            {"logGroupName": "n" * 513},
            "InvalidParameterException",
            "Member must have length less than or equal to 512",
        ),
    ],
)
def test_a_value_outside_the_model_is_refused_by_name_value_and_constraint(
    yard: RunningYard, service: str, operation: str, parameters: dict[str, Any], code: str, said: str
) -> None:
    refused = refusal(getattr(yard.client(service), operation), **parameters)
    assert (refused["Code"], refused["status"]) == (code, 400)
    assert said in refused["Message"]


def test_the_longest_that_is_allowed_is_taken_and_one_more_is_refused(yard: RunningYard) -> None:
    create = yard.client("imagebuilder").create_component
    component = {"name": "one", "semanticVersion": "1.0.0", "platform": "Linux", "data": "phases: []"}
    assert create(**component, description="x" * 1024)["componentBuildVersionArn"]
    refused = refusal(create, **{**component, "name": "two"}, description="x" * 1025)
    assert "at 'description' failed to satisfy constraint: Member must have length less" in refused["Message"]


def test_every_mistake_is_told_at_once(yard: RunningYard) -> None:
    refused = refusal(
        yard.client("iam").create_role,
        RoleName="bad name",
        AssumeRolePolicyDocument="{}",
        PermissionsBoundary="a" * 20,
        Path="no-slashes",
    )
    assert refused["Message"].startswith("2 validation errors detected")
    assert "'no-slashes' at 'Path'" in refused["Message"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"clusterName": "a", "colour": "red"}, "Unknown parameter 'colour'"),
        ({"clusterName": 7}, "Value '7' at 'clusterName' is of the wrong type; it must be a string"),
        ({"tags": {}}, "Value '{}' at 'tags' is of the wrong type; it must be a list"),
        ({"settings": [{"name": "containerInsights", "worth": "x"}]}, "Unknown parameter 'settings.1.worth'"),
    ],
)
def test_a_json_request_that_no_sdk_would_send_is_refused(
    yard: RunningYard, body: dict[str, Any], said: str
) -> None:
    target = "AmazonEC2ContainerServiceV20141113.CreateCluster"
    headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": target}
    status, answer = send_signed(yard, "ecs", "/", json.dumps(body).encode(), headers)
    assert status == 400
    assert said in json.loads(answer)["message"]


def test_a_body_that_is_not_json_is_refused(yard: RunningYard) -> None:
    headers = {"Content-Type": "application/json"}
    status, answer = send_signed(yard, "batch", "/v1/describejobs", b"{jobs", headers)
    assert (status, json.loads(answer)["__type"]) == (400, "SerializationException")


def test_a_missing_member_is_refused(yard: RunningYard) -> None:
    status, answer = send_signed(
        yard, "batch", "/v1/describejobs", b"{}", {"Content-Type": "application/json"}
    )
    assert status == 400
    assert "Value null at 'jobs' failed to satisfy constraint: Member must not be null" in answer


def test_a_form_key_that_the_operation_has_not_is_refused_and_nothing_is_made(yard: RunningYard) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    body = b"Action=CreateVpc&Version=2016-11-15&CidrBlock=10.0.0.0%2F16&CidrBlok=a"
    before = len(yard.client("ec2").describe_vpcs()["Vpcs"])
    status, answer = send_signed(yard, "ec2", "/", body, headers)
    assert status == 400
    assert "Unknown parameter 'CidrBlok' for CreateVpc" in answer
    assert len(yard.client("ec2").describe_vpcs()["Vpcs"]) == before


def test_lists_maps_structures_and_timestamps_of_every_protocol_get_through(yard: RunningYard) -> None:
    tags = [{"Key": "a", "Value": ""}, {"Key": "b", "Value": "ü"}]
    ec2 = yard.client("ec2")
    made = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=[{"ResourceType": "vpc", "Tags": tags}])[
        "Vpc"
    ]
    assert sorted(made["Tags"], key=lambda tag: tag["Key"]) == tags
    group = ec2.create_security_group(GroupName="efa", Description="efa", VpcId=made["VpcId"])["GroupId"]
    everything = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    assert ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[everything])["Return"]
    trust = "\n" + policy({"Effect": "Allow", "Principal": EC2, "Action": "sts:AssumeRole"})
    iam = yard.client("iam")
    iam.create_role(RoleName="a", AssumeRolePolicyDocument=trust, Path="/deep/er/", Tags=tags[:1])
    yard.client("sns").create_topic(Name="t", Attributes={"DisplayName": "shown"}, Tags=tags[1:])
    metric = {
        "MetricName": "m",
        "Value": 0.5,
        "Timestamp": 1700000000,
        "Dimensions": [{"Name": "n", "Value": "v"}],
    }
    yard.client("cloudwatch").put_metric_data(Namespace="a", MetricData=[metric])
    yard.client("sqs").create_queue(QueueName="q", Attributes={"DelaySeconds": "1"})
    yard.client("efs").create_file_system(CreationToken="t", Encrypted=True, Tags=tags[:1])
    yard.client("route53").create_hosted_zone(Name="example.com", CallerReference="r")


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        (r"[a-z]+", "abc", True),
        (r"[a-z]+", "abcD", False),  # a pattern without anchors must match the whole value
        (r"^arn:", "arn:aws:s3:::b", True),
        (r"^[\p{L}\p{Z}]*$", "Größe é", True),
        (r"^[\p{L}]*$", "a1", False),
        (r"[\u0020-\uD7FF\uE000-\uFFFD\uD800\uDC00-\uDBFF\uDFFF]*", "smile 😀", True),
        (r"[\p{all}]*", "a pattern of Java's that Python cannot read", True),
    ],
)
def test_patterns_are_read_as_java_reads_them(pattern: str, value: str, fits: bool) -> None:
    assert validation.matches(pattern, value) is fits


def test_a_request_of_the_sagemaker_sdk_passes_validation(yard: RunningYard) -> None:
    refused = refusal(
        yard.client("sagemaker").create_training_job,
        TrainingJobName="bert-2026",
        AlgorithmSpecification={"TrainingImage": "image", "TrainingInputMode": "File"},
        RoleArn=ROLE,
        OutputDataConfig={"S3OutputPath": "s3://bucket/out", "KmsKeyId": ""},
        ResourceConfig={"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "VolumeSizeInGB": 30},
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
        HyperParameters={"sagemaker_program": '"train.py"'},
        Environment={},
    )
    assert "validation error" not in refused["Message"], "what SageMaker itself refuses comes later"
