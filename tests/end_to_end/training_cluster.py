"""Deploys a sagemaker cluster of small instances, and reads the requests that reach it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.end_to_end.conftest import Shell, yard_at
from tests.end_to_end.in_process import deployed

NAME = "sagemaker"
STACKS = {NAME, f"{NAME}-network", f"{NAME}-observability", f"{NAME}-storage"}
BY_SDK = str(Path(__file__).parent / "apps" / "recipe_by_sdk.py")


@contextmanager
def deployed_cluster(home: Path, *, nodes: int) -> Iterator[Shell]:
    """Deploy as docs/roads/sagemaker.md says for a first try: with the default quotas and without an AMI."""
    small = {"instance_type": "ml.m5.large", "max_nodes": str(nodes), "volume_gb": "30"}
    with yard_at(home / "yard", lambda _: None) as shell:
        with deployed(shell, home / "assembly", NAME, **small):
            yield shell
        assert not stacks(shell) & STACKS


def stacks(shell: Shell) -> set[str]:
    return {stack["StackName"] for stack in shell.client("cloudformation").describe_stacks()["Stacks"]}


def request_of_submit(shell: Shell, name: str) -> dict[str, Any]:
    """Return the request of a job, which `submit` stores next to the job's files."""
    bucket = shell.data("slipway", "cluster", "targets", NAME, "--json")["bucket"]
    kept = shell.client("s3").get_object(Bucket=bucket, Key=f"jobs/{name}/request.json")
    found: dict[str, Any] = json.loads(kept["Body"].read())
    return found


def request_received(shell: Shell, name: str) -> dict[str, Any]:
    """Return the CreateTrainingJob request that reached SageMaker, from its description of the job."""
    sagemaker = shell.client("sagemaker")
    job = sagemaker.describe_training_job(TrainingJobName=name)
    asked = sagemaker.meta.service_model.operation_model("CreateTrainingJob").input_shape.members
    tags = sagemaker.list_tags(ResourceArn=job["TrainingJobArn"])["Tags"]
    return {**{key: value for key, value in job.items() if key in asked}, "Tags": tags}
