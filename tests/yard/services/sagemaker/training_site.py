"""An account with a bucket, a role and a source archive, and ways to run training jobs there."""

from __future__ import annotations

import importlib.util
import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from slipway.yard.endpoint import control
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.services.sagemaker.training.plan import TOOLKIT
from tests.waiting import until
from tests.yard.asking import EVERYTHING, make_role
from tests.yard.conftest import REGION, RunningYard

BUCKET = "training-site"
IMAGE = f"763104351884.dkr.ecr.{REGION}.amazonaws.com/pytorch-training:2.6.0-cpu-py312-ubuntu22.04-sagemaker"
ROLE = "training"
BY_SAGEMAKER = {"Service": "sagemaker.amazonaws.com"}
LOG_GROUP = "/aws/sagemaker/TrainingJobs"
PATIENCE_S = 240.0
ENDED = ("Completed", "Failed", "Stopped")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSite:
    yard: RunningYard
    sagemaker: Any
    s3: Any
    role: str

    def request(self, name: str, code: str = "", **changes: Any) -> dict[str, Any]:
        """Return a request that trains `code` on one small instance; changes replace whole parameters."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            member = tarfile.TarInfo("train.py")
            member.size = len(code.encode())
            archive.addfile(member, io.BytesIO(code.encode()))
        key = f"code/{name}/sourcedir.tar.gz"
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=packed.getvalue())
        settings = {
            "sagemaker_program": "train.py",
            "sagemaker_submit_directory": f"s3://{BUCKET}/{key}",
        }
        parameters = changes.pop("hyper_parameters", {})
        algorithm = {"TrainingImage": IMAGE, "TrainingInputMode": "File", **changes.pop("algorithm", {})}
        resources = {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30}
        return {
            "TrainingJobName": name,
            "AlgorithmSpecification": algorithm,
            "RoleArn": self.role,
            "HyperParameters": {key: json.dumps(value) for key, value in {**settings, **parameters}.items()},
            "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/jobs"},
            "ResourceConfig": {**resources, **changes.pop("resources", {})},
            "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
            **changes,
        }

    def train(self, name: str, code: str, **changes: Any) -> None:
        self.sagemaker.create_training_job(**self.request(name, code, **changes))

    def train_alone(self, name: str, code: str, **changes: Any) -> None:
        """Run the code as the container's first process, in a tenth of the toolkit's time."""
        self.s3.put_object(Bucket=BUCKET, Key=f"alone/{name}/train.py", Body=code.encode())
        place = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/alone/{name}"}
        channel = {"ChannelName": "code", "DataSource": {"S3DataSource": place}}
        entry = {"ContainerEntrypoint": ["python3", "/opt/ml/input/data/code/train.py"]}
        self.train(name, "", algorithm=entry, InputDataConfig=[channel], **changes)

    def ended(self, name: str) -> dict[str, Any]:
        """Return the job once it has ended."""
        asked = {"job": name, "timeout_s": 8}
        self.until(lambda: control(self.yard, "POST", "/await-training", asked) in ENDED, name)
        return self.describe(name)

    def describe(self, name: str) -> dict[str, Any]:
        return dict(self.sagemaker.describe_training_job(TrainingJobName=name))

    def until(self, is_so: Callable[[], object], name: str) -> None:
        """Ask the yard until the condition holds."""
        until(is_so, lambda: f"it never came to be: {self.lines(name)}", patience_s=PATIENCE_S)

    def streams(self, name: str) -> list[str]:
        logs = self.yard.client("logs")
        try:
            found = logs.describe_log_streams(logGroupName=LOG_GROUP, logStreamNamePrefix=f"{name}/")
        except logs.exceptions.ResourceNotFoundException:
            return []
        return sorted(stream["logStreamName"] for stream in found["logStreams"])

    def lines(self, name: str) -> list[str]:
        """Return the output of all its instances in all launches."""
        logs = self.yard.client("logs")
        return [
            event["message"]
            for stream in self.streams(name)
            for event in logs.get_log_events(
                logGroupName=LOG_GROUP, logStreamName=stream, startFromHead=True, limit=10_000
            )["events"]
        ]

    def names_in(self, uri: str) -> list[str]:
        """Return the content of an archive in S3."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        body = self.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        with tarfile.open(fileobj=io.BytesIO(body)) as archive:
            return sorted(archive.getnames())

    def keys(self, prefix: str) -> list[str]:
        found = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return [item["Key"] for item in found]


def require_training() -> None:
    """Skip the test if no training job can run here."""
    if not all(map(importlib.util.find_spec, TOOLKIT)):
        pytest.skip("AWS's training toolkit is not installed: python3 scripts/set_up.py toolkit")
    if not best_tier().isolated:
        pytest.skip(f"this machine isolates nothing: {best_tier().words}")


def new_site(yard: RunningYard) -> TrainingSite:
    s3 = yard.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    role = make_role(yard, ROLE, BY_SAGEMAKER, EVERYTHING)
    return TrainingSite(yard=yard, sagemaker=yard.client("sagemaker"), s3=s3, role=role)
