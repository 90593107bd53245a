"""Builds an image in the cloud: its sources go to the target's bucket as one zip, and CodeBuild pushes it.

The contract with the CodeBuild project stands in infra/patterns/images/image_project.py.
"""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.containers import source_files
from slipway.jobs.words.targets import BatchTarget

SOURCE_PREFIX = "builds/"
POLL_SECONDS = 3.0
_RECENT_BUILDS = 20


class BuildFailed(SlipwayError):
    """CodeBuild ended without an image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """Holds everything that will be sent, except the zip itself; a dry run prints it."""

    upload: Mapping[str, object]
    start: Mapping[str, object]


def build_request(target: BatchTarget, image: str, tag: str, latest_build: str) -> BuildRequest:
    """Build the request to start the build.

    `latest_build` is part of its token: two terminals that see the same one start only one build, and after a
    failure the next request starts another.
    """
    key = f"{SOURCE_PREFIX}{image}-{tag}.zip"
    variables = {"IMAGE": image, "TAG": tag, "REPOSITORY": target.repository_uri}
    return BuildRequest(
        upload={"Bucket": target.bucket, "Key": key, "ExpectedBucketOwner": target.account},
        start={
            "projectName": target.build_project,
            "sourceTypeOverride": "S3",
            "sourceLocationOverride": f"{target.bucket}/{key}",
            "environmentVariablesOverride": [
                {"name": name, "value": value, "type": "PLAINTEXT"} for name, value in variables.items()
            ],
            "idempotencyToken": sha256(f"{tag}\0{latest_build}".encode()).hexdigest(),
        },
    )


def send(request: BuildRequest, sources: bytes, s3: Any, codebuild: Any) -> str:
    """Start the build and return its id."""
    s3.put_object(**request.upload, Body=sources)
    return str(codebuild.start_build(**request.start)["build"]["id"])


def zip_sources(containers: Path, image: str) -> bytes:
    """Pack the files of an image of Slipway, sorted by their names."""
    return zip_entries(
        ZipEntry.read(path.relative_to(containers).as_posix(), path)
        for path in source_files(containers, image)
    )


def recent_builds(project: str, codebuild: Any) -> list[Mapping[str, Any]]:
    """List recent builds, newest first, an order that BatchGetBuilds does not promise."""
    listed = codebuild.list_builds_for_project(projectName=project, sortOrder="DESCENDING")
    ids = listed["ids"][:_RECENT_BUILDS]
    found = {build["id"]: build for build in codebuild.batch_get_builds(ids=ids)["builds"]} if ids else {}
    return [found[id_] for id_ in ids if id_ in found]


def running_build(builds: Sequence[Mapping[str, Any]], tag: str) -> str | None:
    """Return the build of the same tag that is running, if there is one."""
    for build in builds:
        if build["buildStatus"] == "IN_PROGRESS" and _variables(build).get("TAG") == tag:
            return str(build["id"])
    return None


def follow(
    build_id: str, codebuild: Any, pause: Callable[[float], None] = time.sleep
) -> Iterator[Mapping[str, Any]]:
    """Yield the state of the build again and again, the last time when it has ended."""
    while True:
        build = codebuild.batch_get_builds(ids=[build_id])["builds"][0]
        yield build
        if build.get("buildComplete") or build["buildStatus"] != "IN_PROGRESS":
            return
        pause(POLL_SECONDS)


def new_log_lines(build: Mapping[str, Any], logs: Any, token: str | None) -> tuple[list[str], str | None]:
    """Return the lines logged since the token, and the next token; None before the build has a log."""
    place = build.get("logs", {})
    group, stream = place.get("groupName"), place.get("streamName")
    if not group or not stream:
        return [], token
    asked = {"logGroupName": group, "logStreamName": stream, "startFromHead": True}
    answer = ask(logs, "GetLogEvents", **asked, **({"nextToken": token} if token else {}))
    if isinstance(answer, Unanswered):
        return [], token
    return [event["message"].rstrip("\n") for event in answer["events"]], answer["nextForwardToken"]


def refuse_failure(build: Mapping[str, Any]) -> None:
    status = build["buildStatus"]
    if status == "SUCCEEDED":
        return
    failed = [each for each in build.get("phases", []) if each.get("phaseStatus") not in ("SUCCEEDED", None)]
    where = f" in {failed[0]['phaseType']}" if failed else ""
    contexts = [context for phase in failed for context in phase.get("contexts", [])]
    said = "; ".join(context["message"] for context in contexts if context.get("message"))
    link = build.get("logs", {}).get("deepLink")
    raise BuildFailed(
        f"build {build['id']} ended with {status}{where}{said and f': {said}'}",
        hint=f"its log: {link}" if link else "fix it and run this again",
    )


def _variables(build: Mapping[str, Any]) -> dict[str, str]:
    variables = build.get("environment", {}).get("environmentVariables", [])
    return {variable["name"]: variable["value"] for variable in variables}


# The sources of an image as one zip: the same files make the same bytes.
_OLDEST_TIME_OF_ZIP = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipEntry:
    name: str
    content: bytes
    is_program: bool = False

    @classmethod
    def read(cls, name: str, path: Path) -> ZipEntry:
        return cls(name=name, content=path.read_bytes(), is_program=bool(path.stat().st_mode & 0o100))


def zip_entries(entries: Iterable[ZipEntry]) -> bytes:
    """Pack the files reproducibly: with a fixed time, and only the executable bit of their modes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in entries:
            info = zipfile.ZipInfo(entry.name, _OLDEST_TIME_OF_ZIP)
            info.external_attr = (0o100755 if entry.is_program else 0o100644) << 16
            archive.writestr(info, entry.content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
