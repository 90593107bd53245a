"""`slipway image build` builds one image for one set of files, once, however many people ask."""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.cloud import aws
from slipway.jobs.clusters.images import builds
from slipway.jobs.clusters.images.builds import build_request, running_build, zip_sources
from slipway.jobs.code.starting import build_files, write_project
from slipway.jobs.words.images.containers import image_tag, source_files
from slipway.jobs.words.installation import find_containers
from slipway.jobs.words.targets import BatchTarget
from slipway.yard.gateway.faults import Fault, FaultKind, script
from slipway.yard.permissions.keys import ATTEMPTS
from tests.jobs.code.projects import write
from tests.jobs.conftest import Slipway
from tests.jobs.deployed import record_target, register_definition
from tests.jobs.words.test_targets import TARGET
from tests.yard.asking import EVERYTHING, make_role
from tests.yard.conftest import RunningYard

CONTAINERS = find_containers()


@pytest.fixture
def target(yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch) -> BatchTarget:
    """Deploy as much of a cluster as a build needs."""
    monkeypatch.setattr(builds, "POLL_SECONDS", 0.05)
    yard_shell.client("s3").create_bucket(Bucket=TARGET.bucket)
    repository = yard_shell.client("ecr").create_repository(
        repositoryName="slipway/gaudi", imageTagMutability="IMMUTABLE"
    )["repository"]
    yard_shell.client("codebuild").create_project(
        name=TARGET.build_project,
        source={"type": "S3", "location": f"{TARGET.bucket}/builds/gaudi.zip"},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={"type": "LINUX_CONTAINER", "image": "i", "computeType": "BUILD_GENERAL1_LARGE"},
        serviceRole=make_role(yard_shell, "build", {"Service": "codebuild.amazonaws.com"}, EVERYTHING),
    )
    tag = image_tag(CONTAINERS, "gaudi")
    target = replace(TARGET, repository_uri=repository["repositoryUri"], image_tag=tag)
    record_target(yard_shell, target)
    return target


def builds_of(yard: RunningYard) -> Any:
    return yard.client("codebuild").list_builds_for_project(projectName=TARGET.build_project)["ids"]


def test_an_image_is_built_pushed_under_its_tag_and_told_with_its_digest(
    yard_shell: RunningYard, slipway: Slipway, target: BatchTarget
) -> None:
    code, out, err = slipway("image", "build", "gaudi", "--json")
    built = json.loads(out)
    (pushed,) = yard_shell.client("ecr").describe_images(repositoryName="slipway/gaudi")["imageDetails"]
    assert code == 0
    assert (built["tag"], built["digest"]) == (target.image_tag, pushed["imageDigest"])
    assert pushed["imageTags"] == [target.image_tag]
    assert "found images/gaudi/Dockerfile" in err  # of the build's own log


def test_a_projects_own_image_is_built_and_a_command_runs_in_it(
    yard_shell: RunningYard,
    slipway: Slipway,
    target: BatchTarget,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_project(tmp_path / "mine", build_files("mine", "000000"))
    dockerfile = {"images/vision/Dockerfile": "FROM python:3.12-slim\n"}
    monkeypatch.chdir(write(tmp_path / "mine", dockerfile))
    arn = register_definition(yard_shell, target.name)
    target = replace(target, job_definition_arn=arn)
    record_target(yard_shell, target)
    code, out, err = slipway("image", "build", "vision", "--json")
    assert code == 0, err
    built = json.loads(out)
    assert "found project/Dockerfile" in err  # of the build's own log
    assert built["tag"].startswith("own-vision-")
    assert "has been pushed already" in slipway("image", "build", "vision", "--json")[2]
    run = ("run", "--on", target.name, "--nodes", "1", "--image", "vision", "--dry-run", "--", "true")
    (group,) = slipway.json(*run)["request"]["register"]["nodeProperties"]["nodeRangeProperties"]
    assert group["container"]["image"] == f"{target.repository_uri}@{built['digest']}"


def test_what_is_pushed_already_is_said_and_not_built_again(
    yard_shell: RunningYard, slipway: Slipway, target: BatchTarget
) -> None:
    _, first, _ = slipway("image", "build", "gaudi", "--json")
    code, second, err = slipway("image", "build", "gaudi", "--json")
    assert code == 0
    assert f"gaudi:{target.image_tag} has been pushed already" in err
    assert json.loads(second)["digest"] == json.loads(first)["digest"]
    assert len(builds_of(yard_shell)) == 1


def test_a_build_that_fails_tells_phase_and_reason_and_can_be_tried_again_at_once(
    yard_shell: RunningYard, slipway: Slipway, target: BatchTarget
) -> None:
    fault = Fault(service="s3", operation="GetObject", kind=FaultKind.SERVER_ERROR, times=ATTEMPTS)
    script(yard_shell, fault)
    err = slipway.refused("image", "build", "gaudi")
    assert "Phase DOWNLOAD_SOURCE failed" in err
    assert "ended with FAILED in DOWNLOAD_SOURCE" in err
    slipway.told("image", "build", "gaudi")
    assert len(builds_of(yard_shell)) == 2


def test_a_lost_answer_to_the_start_makes_no_second_build(
    yard_shell: RunningYard, slipway: Slipway, target: BatchTarget
) -> None:
    fault = Fault(service="codebuild", operation="StartBuild", kind=FaultKind.DROP_RESPONSE)
    script(yard_shell, fault)
    assert "error: AWS:" in slipway.told("image", "build", "gaudi", code=1)
    slipway.told("image", "build", "gaudi")
    assert len(builds_of(yard_shell)) == 1


def test_a_build_is_followed_though_aws_fails_for_a_while(
    yard_shell: RunningYard, slipway: Slipway, target: BatchTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws, "_ASK_AGAIN_SECONDS", 0.05)
    fault = Fault(service="codebuild", operation="BatchGetBuilds", kind=FaultKind.SERVER_ERROR, times=4)
    script(yard_shell, fault)
    assert "AWS is asked again until it answers" in slipway.told("image", "build", "gaudi")


def test_without_waiting_the_build_is_started_and_the_same_command_follows_it(
    yard_shell: RunningYard, slipway: Slipway, target: BatchTarget
) -> None:
    started = slipway.json("image", "build", "gaudi", "--no-wait", "--json")
    assert started["digest"] is None
    assert started["build"] in builds_of(yard_shell)
    assert slipway.json("image", "build", "gaudi", "--json")["digest"]
    assert builds_of(yard_shell) == [started["build"]]


def test_a_dry_run_prints_the_request_and_sends_nothing(
    yard_shell: RunningYard, slipway: Slipway, target: BatchTarget
) -> None:
    request = slipway.json("image", "build", "gaudi", "--dry-run")
    assert request["upload"]["ExpectedBucketOwner"] == "123456789012"
    assert request["start"]["sourceLocationOverride"] == f"{target.bucket}/{request['upload']['Key']}"
    assert builds_of(yard_shell) == []
    assert "Contents" not in yard_shell.client("s3").list_objects_v2(Bucket=target.bucket)


def test_where_two_clusters_use_the_image_one_must_be_named(
    yard_shell: RunningYard, slipway: Slipway, target: BatchTarget
) -> None:
    record_target(yard_shell, replace(target, name="dl1-b"))
    assert "hint: choose one: --on dl1 or --on dl1-b" in slipway.told("image", "build", "gaudi", code=1)
    slipway.told("image", "build", "gaudi", "--on", "dl1", "--dry-run")


@pytest.mark.usefixtures("yard_shell")
def test_without_a_deployed_cluster_there_is_nowhere_to_push_and_an_unknown_image_has_a_nearest(
    slipway: Slipway,
) -> None:
    nowhere = "no deployed cluster uses container image 'gaudi', so it has no repository"
    assert nowhere in slipway.refused("image", "build", "gaudi")
    assert "hint: did you mean gaudi?" in slipway.refused("image", "build", "gaudy")


def test_another_tag_than_the_job_definitions_is_pointed_out(
    yard_shell: RunningYard, slipway: Slipway, target: BatchTarget
) -> None:
    record_target(yard_shell, replace(target, image_tag="older"))
    _, _, err = slipway("image", "build", "gaudi", "--dry-run")
    assert "the job definition of dl1 names gaudi:older" in err


def test_the_same_files_make_the_same_zip_with_containers_as_its_root(tmp_path: Path) -> None:
    archive = zip_sources(CONTAINERS, "gaudi")
    assert archive == zip_sources(CONTAINERS, "gaudi")
    names = zipfile.ZipFile(io.BytesIO(archive)).namelist()
    assert names == [path.relative_to(CONTAINERS).as_posix() for path in source_files(CONTAINERS, "gaudi")]
    assert "images/gaudi/Dockerfile" in names
    dockerfile = tmp_path / "images" / "cpu" / "Dockerfile"
    dockerfile.parent.mkdir(parents=True)
    dockerfile.write_text("FROM scratch\n")
    before = zip_sources(tmp_path, "cpu")
    os.utime(dockerfile, (0, 0))
    assert zip_sources(tmp_path, "cpu") == before, "the time of a file does not change it"
    dockerfile.chmod(0o755)
    assert zip_sources(tmp_path, "cpu") != before, "and its right to run does"


def test_only_a_running_build_of_the_same_tag_is_joined_and_one_after_a_failure_has_another_token() -> None:
    listed = [
        {
            "id": f"{status}:{tag}",
            "buildStatus": status,
            "environment": {"environmentVariables": [{"name": "TAG", "value": tag}]},
        }
        for status, tag in (("IN_PROGRESS", "other"), ("FAILED", "t"), ("IN_PROGRESS", "t"))
    ]
    assert running_build(listed, "t") == "IN_PROGRESS:t"
    assert running_build(listed, "u") is None
    assert running_build([{"id": "x", "buildStatus": "IN_PROGRESS"}], "t") is None
    made = [("t", "build:1"), ("t", "build:1"), ("t", "build:2"), ("u", "build:1")]
    first, *others = [build_request(TARGET, "gaudi", *each).start["idempotencyToken"] for each in made]
    assert first == others[0]
    assert len({first, *others}) == 3
