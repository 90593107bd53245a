"""What SageMaker refuses of a training job is refused in the yard, before anything starts."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from slipway.yard.endpoint import control
from slipway.yard.errors import ApiError
from slipway.yard.machines.isolation.tiers import TIERS
from slipway.yard.services.sagemaker.training import checks
from tests.yard.services.sagemaker.training_site import BUCKET, IMAGE, TrainingSite, make_role

ELSEWHERE = "training-site-elsewhere"
EC2_ALONE = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
SPOT: dict[str, Any] = {"EnableManagedSpotTraining": True}

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no role", {"RoleArn": "arn:aws:iam::123456789012:role/nobody"}, "Could not assume role .*nobody"),
    (
        "no bucket",
        {"OutputDataConfig": {"S3OutputPath": "s3://there-is-no-such-bucket/jobs"}},
        "Please ensure that the bucket exists in the selected region \\(us-east-1\\)",
    ),
    (
        "a bucket of another region",
        {"CheckpointConfig": {"S3Uri": f"s3://{ELSEWHERE}/kept"}},
        "No S3 bucket training-site-elsewhere for CheckpointConfig .* in the selected region \\(us-east-1\\)",
    ),
    ("spot without a wait", SPOT, "MaxWaitTimeInSeconds. It must be present and be greater than or equal"),
    (
        "an image of another region",
        {"algorithm": {"TrainingImage": IMAGE.replace("us-east-1", "eu-west-1")}},
        "takes its image from its own region",
    ),
    ("no image of ECR", {"algorithm": {"TrainingImage": "docker.io/pytorch:2"}}, "Invalid image URI"),
    (
        "an unknown subnet",
        {"VpcConfig": {"Subnets": ["subnet-12345678"], "SecurityGroupIds": ["sg-12345678"]}},
        "The subnet ID 'subnet-12345678' does not exist",
    ),
    (
        "a key for disks that encrypt themselves",
        {"resources": {"InstanceType": "ml.p4d.24xlarge", "VolumeKmsKeyId": "alias/training"}},
        "VolumeKmsKeyId cannot be given for ml.p4d.24xlarge",
    ),
    ("another algorithm", {"algorithm": {"TrainingImage": IMAGE.replace("pytorch", "xgboost")}}, "xgboost"),
    (
        "too many hyper-parameters",
        {"hyper_parameters": {f"setting-{number}": number for number in range(101)}},
        "have length less than or equal to 100",
    ),
]


@pytest.mark.parametrize(("changes", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_job_that_aws_would_refuse_is_refused(
    site: TrainingSite, changes: dict[str, Any], words: str
) -> None:
    buckets = [bucket["Name"] for bucket in site.s3.list_buckets()["Buckets"]]
    if ELSEWHERE not in buckets:
        where = {"LocationConstraint": "eu-west-1"}
        site.yard.client("s3", "eu-west-1").create_bucket(Bucket=ELSEWHERE, CreateBucketConfiguration=where)
    with pytest.raises(ClientError, match=words):
        site.sagemaker.create_training_job(**site.request("refused", **changes))
    with pytest.raises(ClientError, match=r"ValidationException.*Requested resource not found"):
        site.sagemaker.describe_training_job(TrainingJobName="refused")


def test_a_role_of_another_service_cannot_train(site: TrainingSite) -> None:
    role = make_role(site.yard.client("iam"), "machine", EC2_ALONE)
    with pytest.raises(ClientError, match=r"allows principal 'sagemaker.amazonaws.com' to assume the role"):
        site.sagemaker.create_training_job(**site.request("refused", RoleArn=role))


def test_more_instances_than_the_quota_has_are_refused(site: TrainingSite) -> None:
    quota = "ml.c5.xlarge for training job usage"
    control(site.yard, "POST", "/grant-quota", {"code": quota, "vcpus": 1})
    two = site.request("refused", resources={"InstanceType": "ml.c5.xlarge", "InstanceCount": 2})
    words = f"ResourceLimitExceeded.*'{quota}' is 1 Instances, .* request delta of 2 Instances"
    with pytest.raises(ClientError, match=words):
        site.sagemaker.create_training_job(**two)


def test_a_fresh_account_starts_none_of_the_large_types_until_it_has_asked(site: TrainingSite) -> None:
    large = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1}
    quotas = site.yard.client("service-quotas")
    listed = {
        each["QuotaName"]: each for each in quotas.list_service_quotas(ServiceCode="sagemaker")["Quotas"]
    }
    found = listed["ml.p4d.24xlarge for training job usage"]
    assert (found["QuotaCode"], found["Value"]) == ("L-09B4A649", 0)
    refused = r"ResourceLimitExceeded.*'ml.p4d.24xlarge for training job usage' is 0 Instances"
    with pytest.raises(ClientError, match=refused):
        site.sagemaker.create_training_job(**site.request("large", resources=large))
    asked = {"ServiceCode": "sagemaker", "QuotaCode": found["QuotaCode"]}
    quotas.request_service_quota_increase(**asked, DesiredValue=1)
    site.until(lambda: quotas.get_service_quota(**asked)["Quota"]["Value"] == 1, "large")
    site.train_alone("large", "print('done')", resources=large)
    assert site.ended("large")["TrainingJobStatus"] == "Completed"


def test_a_job_longer_than_the_account_allows_is_refused(site: TrainingSite) -> None:
    long = site.request("long", StoppingCondition={"MaxRuntimeInSeconds": 432_001})
    with pytest.raises(ClientError, match=r"'Longest run time for a training job' is 432000 Seconds"):
        site.sagemaker.create_training_job(**long)


def test_a_role_without_rights_fails_the_job_by_name(site: TrainingSite) -> None:
    trusted = {**EC2_ALONE, "Principal": {"Service": "sagemaker.amazonaws.com"}}
    role = make_role(site.yard.client("iam"), "powerless", trusted)
    place = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/code"}
    channel = {"ChannelName": "code", "DataSource": {"S3DataSource": place}}
    site.sagemaker.create_training_job(**site.request("powerless", RoleArn=role, InputDataConfig=[channel]))
    job = site.ended("powerless")
    assert job["TrainingJobStatus"] == "Failed"
    assert "ClientError: Data download failed" in job["FailureReason"]
    assert "AccessDenied" in job["FailureReason"]


def test_a_machine_without_namespaces_says_so(site: TrainingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "best_tier", lambda: TIERS[-1])
    with pytest.raises(ApiError, match=r"gives no instance a /opt/ml of its own .*plain processes"):
        checks.refuse(site.request("plain"), "us-east-1")
