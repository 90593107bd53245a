"""Fixtures: a SageMaker that records requests, for tests of what is sent and what is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slipway.jobs.cloud import aws, objects
from slipway.jobs.platforms.sagemaker import explain, platform, runs

ACCOUNT_QUOTA = (
    "The account-level service limit 'ml.p4d.24xlarge for training job usage' is 0 Instances, with current "
    "utilization of 0 Instances and a request delta of 2 Instances. Please contact AWS support"
)


def refusal(code: str, message: str, operation: str = "CreateTrainingJob", status: int = 400) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}},
        operation,
    )


@dataclass(slots=True)
class Sdk:
    """Stands in for SageMaker, S3, ECR and CloudWatch Logs."""

    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    objects: dict[str, bytes | str] = field(default_factory=dict)
    streams: dict[str, list[str]] = field(default_factory=dict)
    stopped: list[str] = field(default_factory=list)
    regions: dict[str, str] = field(default_factory=dict)  # buckets that are in another region
    images: list[str] = field(default_factory=list)  # tags that the registry lacks
    refuses: ClientError | None = None
    meta: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(service_model=SimpleNamespace(signing_name="aws"))
    )

    def create_training_job(self, **given: Any) -> Mapping[str, Any]:
        if self.refuses:
            raise self.refuses
        name = given["TrainingJobName"]
        if name in self.jobs:
            raise refusal(
                "ResourceInUse", "Training job names must be unique within an AWS account and region"
            )
        self.jobs[name] = {**given, "TrainingJobStatus": "InProgress", "SecondaryStatus": "Starting"}
        return {"TrainingJobArn": f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{name}"}

    def describe_training_job(self, **given: str) -> Mapping[str, Any]:
        if given["TrainingJobName"] not in self.jobs:
            raise refusal("ValidationException", "Requested resource not found.", "DescribeTrainingJob")
        return self.jobs[given["TrainingJobName"]]

    def stop_training_job(self, **given: str) -> None:
        self.stopped.append(given["TrainingJobName"])

    def put_object(self, **given: Any) -> None:
        self.objects[given["Key"]] = given["Body"]

    def head_object(self, **given: Any) -> Mapping[str, Any]:
        if given["Key"] not in self.objects:
            raise refusal("404", "Not Found", "HeadObject", 404)
        return {}

    def head_bucket(self, **given: str) -> Mapping[str, Any]:
        region = self.regions.get(given["Bucket"], "us-east-1")
        if region == "none":
            raise refusal("404", "Not Found", "HeadBucket", 404)
        return {"ResponseMetadata": {"HTTPStatusCode": 200, "HTTPHeaders": {"x-amz-bucket-region": region}}}

    def batch_get_image(self, **given: Any) -> Mapping[str, Any]:
        tag = given["imageIds"][0]["imageTag"]
        if tag in self.images:
            return {"images": [], "failures": [{"failureCode": "ImageNotFound"}]}
        return {"images": [{"imageId": {"imageTag": tag}}], "failures": []}

    def get_log_events(self, **given: Any) -> Mapping[str, Any]:
        return {"events": [{"message": line} for line in self.streams[given["logStreamName"]]]}

    def get_paginator(self, operation: str) -> SimpleNamespace:
        return SimpleNamespace(paginate=getattr(self, f"_{operation}"))

    def _list_objects_v2(self, **given: Any) -> list[Mapping[str, Any]]:
        folders = {
            "/".join(key.split("/")[:2]) + "/" for key in self.objects if key.startswith(given["Prefix"])
        }
        return [{"CommonPrefixes": [{"Prefix": folder} for folder in sorted(folders)]}]

    def _describe_log_streams(self, **given: Any) -> list[Mapping[str, Any]]:
        assert given["logGroupName"] == "/aws/sagemaker/TrainingJobs"
        prefix = given["logStreamNamePrefix"]
        return [{"logStreams": [{"logStreamName": name} for name in self.streams if name.startswith(prefix)]}]


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> Sdk:
    found = Sdk()

    def same(service: str, region: str | None = None) -> Sdk:
        assert region in ("us-east-1", None), f"{service} is asked in {region}"
        return found

    for name in ("client", "sender", "reader"):
        monkeypatch.setattr(aws, name, same)
    for module in (runs, explain, platform, objects):
        monkeypatch.setattr(module, "reader", same)
    return found
