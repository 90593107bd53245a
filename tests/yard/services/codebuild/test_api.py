"""The yard's CodeBuild really fetches sources and pushes images; only the build between is imitated."""

from __future__ import annotations

import io
import json
import time
import zipfile
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest

from slipway.yard.gateway.faults import Fault, FaultKind, script
from tests.yard.asking import make_role, policy, refusal
from tests.yard.conftest import RunningYard

ROLE = "arn:aws:iam::123456789012:role/build"
BUILDS = {"Service": "codebuild.amazonaws.com"}
PUSH = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
)
ALLOWED = (
    {"Effect": "Allow", "Action": ["logs:*", "ecr:GetAuthorizationToken"], "Resource": "*"},
    {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::source/*"},
    {"Effect": "Allow", "Action": list(PUSH), "Resource": "arn:aws:ecr:*:*:repository/*"},
)
GROUP = "/slipway/build"
LOOK_AGAIN_S = 0.05  # a build needs the processors that looking takes
CALLS = ("logs:CreateLogStream", "logs:PutLogEvents", "s3:GetObject", "ecr:BatchGetImage", "ecr:PutImage")
STEPS = [
    "SUBMITTED",
    "QUEUED",
    "PROVISIONING",
    "DOWNLOAD_SOURCE",
    "INSTALL",
    "PRE_BUILD",
    "BUILD",
    "POST_BUILD",
    "UPLOAD_ARTIFACTS",
    "FINALIZING",
    "COMPLETED",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Make a project, a bucket with a source and a repository."""

    yard: RunningYard

    def client(self, service: str) -> Any:
        return self.yard.client(service)

    def upload(self, *names: str) -> None:
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as packed:
            for name in names:
                packed.writestr(name, "FROM scratch\n")
        self.client("s3").put_object(Bucket="source", Key="source.zip", Body=archive.getvalue())

    def build(self, **variables: str) -> dict[str, Any]:
        """Follow one build to its end."""
        given = {"IMAGE": "gaudi", "TAG": "0123456789abcdef", "REPOSITORY": "slipway/gaudi", **variables}
        overrides = [{"name": name, "value": value} for name, value in given.items() if value]
        started = self.client("codebuild").start_build(
            projectName="build",
            sourceTypeOverride="S3",
            sourceLocationOverride="source/source.zip",
            environmentVariablesOverride=overrides,
        )["build"]
        assert (started["buildStatus"], started["buildComplete"]) == ("IN_PROGRESS", False)
        while True:
            (found,) = self.client("codebuild").batch_get_builds(ids=[started["id"]])["builds"]
            if found["buildComplete"]:
                return dict(found)
            time.sleep(LOOK_AGAIN_S)

    def images(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client("ecr").list_images(repositoryName="slipway/gaudi")[
            "imageIds"
        ]
        return found


@pytest.fixture
def workshop(yard: RunningYard) -> Workshop:
    yard.client("s3").create_bucket(Bucket="source")
    yard.client("ecr").create_repository(repositoryName="slipway/gaudi", imageTagMutability="IMMUTABLE")
    yard.client("codebuild").create_project(
        name="build",
        source={"type": "NO_SOURCE", "buildspec": "version: 0.2"},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={
            "type": "LINUX_CONTAINER",
            "image": "aws/codebuild/standard:7.0",
            "computeType": "BUILD_GENERAL1_LARGE",
            "privilegedMode": True,
        },
        serviceRole=make_role(yard, "build", BUILDS, *ALLOWED),
        logsConfig={"cloudWatchLogs": {"status": "ENABLED", "groupName": GROUP}},
    )
    return Workshop(yard=yard)


def failure(build: dict[str, Any]) -> tuple[str, str]:
    """Return the phase in which a build failed, and why."""
    assert build["buildStatus"] == "FAILED"
    (phase,) = [phase for phase in build["phases"] if phase.get("phaseStatus") == "FAILED"]
    return phase["phaseType"], phase["contexts"][0]["message"]


def test_a_build_puts_the_image_into_the_repository_under_its_tag(workshop: Workshop) -> None:
    workshop.upload("images/gaudi/Dockerfile", "runtime/launch.py")
    build = workshop.build()
    assert build["buildStatus"] == "SUCCEEDED", [phase.get("contexts") for phase in build["phases"]]
    assert [phase["phaseType"] for phase in build["phases"]] == STEPS
    (image,) = workshop.images()
    assert image["imageTag"] == "0123456789abcdef"
    (got,) = workshop.client("ecr").batch_get_image(repositoryName="slipway/gaudi", imageIds=[image])[
        "images"
    ]
    assert json.loads(got["imageManifest"])["schemaVersion"] == 2
    assert image["imageDigest"] == f"sha256:{sha256(got['imageManifest'].encode()).hexdigest()}"


@pytest.mark.parametrize("kind", [FaultKind.THROTTLE, FaultKind.SERVER_ERROR, FaultKind.DROP_RESPONSE])
def test_a_build_repeats_calls_that_failed_or_whose_answers_were_lost(
    workshop: Workshop, kind: FaultKind
) -> None:
    workshop.upload("images/gaudi/Dockerfile")
    for call in CALLS:
        service, operation = call.split(":")
        script(workshop.yard, Fault(service=service, operation=operation, kind=kind))
    assert workshop.build()["buildStatus"] == "SUCCEEDED"
    assert len(workshop.images()) == 1


def test_two_people_who_send_the_same_request_at_once_get_one_build(workshop: Workshop) -> None:
    codebuild = workshop.client("codebuild")
    asked = {"projectName": "build", "idempotencyToken": "once", "sourceVersion": "1"}
    first, second = (codebuild.start_build(**asked)["build"]["id"] for _ in range(2))
    assert first == second
    with pytest.raises(codebuild.exceptions.InvalidInputException, match="idempotency token"):
        codebuild.start_build(**{**asked, "sourceVersion": "2"})
    assert codebuild.start_build(projectName="build")["build"]["id"] != first


def test_the_repository_may_be_given_with_its_registry(workshop: Workshop) -> None:
    workshop.upload("containers/images/gaudi/Dockerfile")
    registry = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
    assert workshop.build(REPOSITORY=f"{registry}/slipway/gaudi")["buildStatus"] == "SUCCEEDED"
    assert len(workshop.images()) == 1


def test_the_log_of_a_build_is_where_the_build_says(workshop: Workshop) -> None:
    workshop.upload("images/gaudi/Dockerfile")
    where = workshop.build()["logs"]
    assert where["groupName"] == GROUP
    events = workshop.client("logs").get_log_events(
        logGroupName=where["groupName"], logStreamName=where["streamName"], startFromHead=True
    )["events"]
    said = "\n".join(event["message"] for event in events)
    assert "found images/gaudi/Dockerfile" in said
    assert "the yard does not build the image" in said


def test_the_same_source_again_is_the_same_image_and_another_breaks_the_tag(workshop: Workshop) -> None:
    workshop.upload("images/gaudi/Dockerfile")
    workshop.build()
    assert workshop.build()["buildStatus"] == "SUCCEEDED"
    workshop.upload("images/gaudi/Dockerfile", "another.py")
    phase, why = failure(workshop.build())
    assert phase == "POST_BUILD"
    assert "already exists" in why
    assert len(workshop.images()) == 1


@pytest.mark.parametrize(
    ("variables", "phase", "why"),
    [
        ({"IMAGE": "trainium"}, "PRE_BUILD", "no images/trainium/Dockerfile among the 1 files"),
        ({"IMAGE": ""}, "PRE_BUILD", "no environment variable IMAGE"),
        ({"TAG": ""}, "POST_BUILD", "no environment variable TAG"),
        ({"REPOSITORY": "none"}, "POST_BUILD", "RepositoryNotFoundException"),
    ],
)
def test_a_build_that_cannot_succeed_fails_where_it_would_and_says_why(
    workshop: Workshop, variables: dict[str, str], phase: str, why: str
) -> None:
    workshop.upload("images/gaudi/Dockerfile")
    failed_in, said = failure(workshop.build(**variables))
    assert failed_in == phase
    assert why in said
    assert workshop.images() == []


def test_a_build_without_its_source_fails_to_download_it(workshop: Workshop) -> None:
    """S3 reports a missing object only to callers that may list the bucket, which the role may not."""
    phase, why = failure(workshop.build())
    assert (phase, "AccessDenied" in why) == ("DOWNLOAD_SOURCE", True)


def test_a_source_that_is_no_archive_fails(workshop: Workshop) -> None:
    workshop.client("s3").put_object(Bucket="source", Key="source.zip", Body=b"text")
    phase, why = failure(workshop.build())
    assert (phase, "no zip archive" in why) == ("PRE_BUILD", True)


def test_a_project_is_updated_found_and_deleted(workshop: Workshop) -> None:
    codebuild = workshop.client("codebuild")
    codebuild.update_project(name="build", timeoutInMinutes=30)
    asked = codebuild.batch_get_projects(names=["build", "none"])
    (project,) = asked["projects"]
    assert (project["timeoutInMinutes"], project["serviceRole"]) == (30, ROLE)
    assert asked["projectsNotFound"] == ["none"]
    assert codebuild.list_projects()["projects"] == ["build"]
    codebuild.delete_project(name="build")
    refused = refusal(codebuild.start_build, projectName="build")
    assert refused["Code"] == "ResourceNotFoundException"


@pytest.mark.parametrize(
    "action", ["s3:GetObject", "ecr:PutImage", "ecr:UploadLayerPart", "logs:PutLogEvents"]
)
def test_a_build_fails_where_its_role_lacks_an_action(workshop: Workshop, action: str) -> None:
    workshop.upload("images/gaudi/Dockerfile")
    deny = policy({"Effect": "Deny", "Action": action, "Resource": "*"})
    workshop.client("iam").put_role_policy(RoleName="build", PolicyName="deny", PolicyDocument=deny)
    _, why = failure(workshop.build())
    assert f"is not authorized to perform: {action} on resource: " in why
    assert "with an explicit deny in an identity-based policy" in why
