"""Imitates one build of CodeBuild: it fetches the source, finds the Dockerfile and tags a manifest in ECR.

It leaves out the build itself: it runs no buildspec and makes no layers, so the image cannot be pulled.
What it does check: the S3 object, the zip, the Dockerfile, the repository and the tag.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import logging
import re
import threading
import uuid
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import going_on
from slipway.yard.permissions import keys, roles
from slipway.yard.permissions.calls.asked import ActionNeed, arn
from slipway.yard.permissions.keys import RoleSession

log = logging.getLogger(__name__)

MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG_TYPE = "application/vnd.docker.container.image.v1+json"
_LAYER_ACTIONS = (
    "BatchCheckLayerAvailability",
    "InitiateLayerUpload",
    "UploadLayerPart",
    "CompleteLayerUpload",
)
_REGISTRY = re.compile(r"^\d{12}\.dkr\.ecr\.[\w.-]+/")


class CodeBuildFailed(Exception):
    """Ends the build with a message for the user."""


@dataclass(slots=True, kw_only=True)
class Build:
    """Holds what BatchGetBuilds shows; the thread that runs the build changes it."""

    region: str
    facts: dict[str, Any]
    variables: Mapping[str, str]
    source: bytes = b""
    session: RoleSession | None = None  # of the service role, once it is assumed
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, project: Mapping[str, Any], asked: Mapping[str, Any], number: int, region: str) -> Build:
        stream = str(uuid.uuid4())
        identifier = f"{project['name']}:{stream}"
        variables = [
            *project["environment"].get("environmentVariables", []),
            *asked.get("environmentVariablesOverride", []),
        ]
        overrides = {"type": asked.get("sourceTypeOverride"), "location": asked.get("sourceLocationOverride")}
        facts = {
            "id": identifier,
            "arn": f"arn:aws:codebuild:{region}:{ACCOUNT}:build/{identifier}",
            "buildNumber": number,
            "startTime": datetime.now(UTC),
            "currentPhase": "QUEUED",
            "buildStatus": "IN_PROGRESS",
            "buildComplete": False,
            "projectName": project["name"],
            "phases": [],
            "source": {**project["source"], **{name: value for name, value in overrides.items() if value}},
            "environment": {**project["environment"], "environmentVariables": variables},
            "serviceRole": project.get("serviceRole"),
            "timeoutInMinutes": project["timeoutInMinutes"],
            "queuedTimeoutInMinutes": project["queuedTimeoutInMinutes"],
            "encryptionKey": project["encryptionKey"],
            "initiator": "slipway-yard",
            "logs": _log_of(project, stream),
        }
        return cls(region=region, facts=facts, variables={item["name"]: item["value"] for item in variables})

    def client(self, service: str) -> Any:
        """Make a client with the project's service role."""
        if self.session is None:
            name = f"AWSCodeBuild-{self.facts['id'].rpartition(':')[2]}"
            self.session = roles.assume(self.facts["serviceRole"], "codebuild.amazonaws.com", name)
        return keys.client(self.session, service, self.region)

    def view(self) -> dict[str, Any]:
        with self.lock:
            return copy.deepcopy(self.facts)

    def variable(self, name: str) -> str:
        if not self.variables.get(name):
            raise CodeBuildFailed(
                f"the build has no environment variable {name}; IMAGE, TAG and REPOSITORY are needed"
            )
        return self.variables[name]


def start(build: Build) -> None:
    threading.Thread(target=_run, args=(build,), name=f"build {build.facts['id']}", daemon=True).start()


def _log_of(project: Mapping[str, Any], stream: str) -> dict[str, Any]:
    given = project.get("logsConfig", {}).get("cloudWatchLogs", {})
    return {
        "groupName": given.get("groupName", f"/aws/codebuild/{project['name']}"),
        "streamName": "/".join(filter(None, [given.get("streamName"), stream])),
    }


def _run(build: Build) -> None:
    status = "SUCCEEDED"
    for phase, act in _PHASES.items():
        if _phase(build, phase, act):
            status = "FAILED"
            break
    with build.lock:
        build.facts["phases"].append({"phaseType": "COMPLETED", "startTime": datetime.now(UTC)})
        build.facts |= {
            "currentPhase": "COMPLETED",
            "buildStatus": status,
            "buildComplete": True,
            "endTime": datetime.now(UTC),
        }


def _phase(build: Build, phase: str, act: Callable[[Build], str]) -> str:
    """Run one phase; return why it failed, or ""."""
    started = datetime.now(UTC)
    with build.lock:
        build.facts["currentPhase"] = phase
    failure = ""
    try:
        _say(build, f"Entering phase {phase}")
        _say(build, act(build))
    except Exception as error:  # whatever goes wrong fails the phase
        log.info("build %s failed in %s", build.facts["id"], phase, exc_info=True)
        failure = str(error)
        # If this line cannot be written, that must not replace the reason of the build's failure.
        with going_on(log, "cannot write the log of build %s", build.facts["id"]):
            _say(build, f"Phase {phase} failed: {failure}")
    ended = datetime.now(UTC)
    with build.lock:
        build.facts["phases"].append(
            {
                "phaseType": phase,
                "phaseStatus": "FAILED" if failure else "SUCCEEDED",
                "startTime": started,
                "endTime": ended,
                "durationInSeconds": round((ended - started).total_seconds()),
                "contexts": [{"statusCode": "YARD_BUILD_ERROR", "message": failure}] if failure else [],
            }
        )
    return failure


def _download(build: Build) -> str:
    source = build.facts["source"]
    if source["type"] != "S3":
        raise CodeBuildFailed(f"the source is of type {source['type']}; the yard fetches S3 sources only")
    bucket, _, key = source["location"].partition("/")
    bucket = bucket.removeprefix("arn:aws:s3:::")
    build.source = build.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    return f"{len(build.source)} bytes from s3://{bucket}/{key}"


def _find_dockerfile(build: Build) -> str:
    image = build.variable("IMAGE")
    try:
        names = zipfile.ZipFile(io.BytesIO(build.source)).namelist()
    except zipfile.BadZipFile as error:
        raise CodeBuildFailed(f"the source is no zip archive: {error}") from error
    wanted = (f"images/{image}/Dockerfile", "project/Dockerfile")
    found = [name for name in names if name.endswith(wanted)]
    if not found:
        raise CodeBuildFailed(f"there is no {wanted[0]} among the {len(names)} files of the source")
    return f"found {found[0]}"


def _pass_over(_build: Build) -> str:
    return "the yard does not build the image"


def _push(build: Build) -> str:
    repository, tag = _REGISTRY.sub("", build.variable("REPOSITORY")), build.variable("TAG")
    client, manifest = build.client("ecr"), _manifest(build.source)
    client.get_authorization_token()
    if _is_there(client, repository, tag, manifest):
        return f"{repository}:{tag} is there already, with the same content"
    # There are no layers, but a build without the permission to push them must fail.
    assert build.session, "the login to ECR has assumed the role"
    resource = arn("ecr", build.region, f"repository/{repository}")
    needs = [ActionNeed(action=f"ecr:{act}", resource=resource) for act in _LAYER_ACTIONS]
    if words := roles.refused(build.session, build.region, needs):
        raise CodeBuildFailed(words)
    try:
        client.put_image(
            repositoryName=repository,
            imageManifest=manifest,
            imageManifestMediaType=MANIFEST_TYPE,
            imageDigest=f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}",
            imageTag=tag,
        )
    except (
        client.exceptions.ImageAlreadyExistsException,
        client.exceptions.ImageTagAlreadyExistsException,
    ):
        if not _is_there(client, repository, tag, manifest):  # it may be there if the first answer was lost
            raise
    return f"pushed {repository}:{tag}"


def _is_there(client: Any, repository: str, tag: str, manifest: str) -> bool:
    found = client.batch_get_image(repositoryName=repository, imageIds=[{"imageTag": tag}])["images"]
    return bool(found) and found[0]["imageManifest"] == manifest


def _manifest(source: bytes) -> str:
    """Return a manifest that depends only on the source, so its digest does, too."""
    digest = f"sha256:{hashlib.sha256(source).hexdigest()}"
    config = {"mediaType": CONFIG_TYPE, "size": len(source), "digest": digest}
    return json.dumps({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": []})


def _say(build: Build, text: str) -> None:
    """Write one line to the build's log."""
    client = build.client("logs")
    logs = build.facts["logs"]
    where = {"logGroupName": logs["groupName"], "logStreamName": logs["streamName"]}
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    events = [{"timestamp": now_ms, "message": f"[Container] {text}"}]
    try:
        client.put_log_events(**where, logEvents=events)
    except client.exceptions.ResourceNotFoundException:
        # Make the log group only if there is none, as CodeBuild does.
        is_there = client.exceptions.ResourceAlreadyExistsException  # also after a lost answer
        try:
            with suppress(is_there):
                client.create_log_stream(**where)
        except client.exceptions.ResourceNotFoundException:
            with suppress(is_there):
                client.create_log_group(logGroupName=where["logGroupName"])
            with suppress(is_there):
                client.create_log_stream(**where)
        client.put_log_events(**where, logEvents=events)


_PHASES: Mapping[str, Callable[[Build], str]] = {
    "SUBMITTED": lambda _build: "submitted",
    "QUEUED": lambda _build: "queued",
    "PROVISIONING": lambda _build: "a thread of the yard",
    "DOWNLOAD_SOURCE": _download,
    "INSTALL": _pass_over,
    "PRE_BUILD": _find_dockerfile,
    "BUILD": _pass_over,
    "POST_BUILD": _push,
    "UPLOAD_ARTIFACTS": lambda _build: "no artifacts",
    "FINALIZING": lambda _build: "done",
}
