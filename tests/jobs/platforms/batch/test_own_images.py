"""A job with its own container image runs by a copy of the cluster's job definition."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from slipway.jobs.platforms.batch.platform import NoImage
from slipway.jobs.platforms.batch.request import BatchRequest
from slipway.jobs.submit.preparing import prepare
from slipway.jobs.submit.submission import submit_prepared
from slipway.jobs.words.job import DoesNotFit, Job
from slipway.jobs.words.targets import BatchTarget
from tests.jobs.deployed import job_names
from tests.yard.conftest import RunningYard

REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
IMAGE = f"{REGISTRY}/vision:2"
JOB = Job(name="own", recipe="smoke", nodes=2, image=IMAGE)


@pytest.fixture
def digest(yard_shell: RunningYard, target: BatchTarget) -> str:
    """Push the image."""
    ecr = yard_shell.client("ecr")
    ecr.create_repository(repositoryName="vision")
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {"digest": "sha256:" + "1" * 64},
        "layers": [],
    }
    pushed = ecr.put_image(repositoryName="vision", imageManifest=json.dumps(manifest), imageTag="2")
    return str(pushed["image"]["imageId"]["imageDigest"])


def definitions(yard: RunningYard, status: str = "ACTIVE") -> dict[str, dict[str, Any]]:
    found = yard.client("batch").describe_job_definitions(status=status)["jobDefinitions"]
    return {each["jobDefinitionArn"]: each for each in found}


def test_the_clusters_definition_is_registered_once_more_with_the_image_when_a_job_is_sent(
    yard_shell: RunningYard, target: BatchTarget, digest: str
) -> None:
    prepared = prepare(JOB, "dl1")
    assert isinstance(prepared.request, BatchRequest)
    assert prepared.request.register
    assert list(definitions(yard_shell)) == [target.job_definition_arn], "deciding registers nothing"
    assert prepared.name != prepare(replace(JOB, image=None), "dl1").name
    submitted = submit_prepared(prepared)
    (job,) = yard_shell.client("batch").describe_jobs(jobs=[submitted.job_id])["jobs"]
    found = definitions(yard_shell)
    assert submit_prepared(prepare(replace(JOB, nodes=1), "dl1")).existed is False
    assert submit_prepared(prepare(JOB, "dl1")).existed is True
    assert set(definitions(yard_shell)) == set(found), "nor does another job in the same image"
    own, deployed = found.pop(job["jobDefinition"]), found.pop(target.job_definition_arn)
    assert found == {}
    (group,), (deployed_group,) = (each["nodeProperties"]["nodeRangeProperties"] for each in (own, deployed))
    assert group["container"].pop("image") == f"{REGISTRY}/vision@{digest}"
    del deployed_group["container"]["image"]
    assert group == deployed_group
    assert job["tags"]["slipway:image"] == IMAGE
    assert job["tags"]["slipway:image-digest"] == digest


@pytest.mark.usefixtures("digest")
def test_an_image_that_nobody_pushed_is_refused_in_the_yard_too_and_one_of_another_registry_at_once(
    yard_shell: RunningYard, target: BatchTarget
) -> None:
    for image in (f"{REGISTRY}/vision:3", f"{REGISTRY}/nowhere:1"):
        with pytest.raises(NoImage, match=f"the registry has no image {image}"):
            submit_prepared(prepare(replace(JOB, image=image), "dl1"))
    with pytest.raises(DoesNotFit, match="may pull from"):
        prepare(replace(JOB, image="docker.io/library/python:3.12"), "dl1")
    assert job_names(yard_shell, target) == []
    assert list(definitions(yard_shell)) == [target.job_definition_arn]
