"""Builds an image of Slipway or of a project: uploads a zip to the target's bucket, and CodeBuild pushes it.

Its contract with the CodeBuild project is infra/patterns/images/image_project.py.
"""

from __future__ import annotations

import io
import re
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask, outlast, reader
from slipway.jobs.clusters.images.dockerfile import BadImage, refuse_leaving
from slipway.jobs.code.folder import read_folder
from slipway.jobs.platforms.platform import takes_images
from slipway.jobs.words.errors import SlipwayError, did_you_mean
from slipway.jobs.words.images.containers import code_files, image_names, is_image_uri, source_files
from slipway.jobs.words.installation import NoProject, Project, find_project
from slipway.jobs.words.job import DoesNotFit
from slipway.jobs.words.targets import BatchTarget, Target
from slipway.jobs.words.text import printable

SOURCE_PREFIX = "builds/"
POLL_SECONDS = 3.0
_RECENT_BUILDS = 20


class BuildFailed(SlipwayError):
    """CodeBuild ended without an image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """Hold everything that will be sent, except the zip itself; a dry run prints it."""

    upload: Mapping[str, object]
    start: Mapping[str, object]


def build_request(target: BatchTarget, image: str, tag: str, latest_build: str) -> BuildRequest:
    """Build the request to start the build.

    `latest_build` is part of its token: two terminals that see the same latest build start only one; after a
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
    """Pack the files of an image of Slipway, sorted by name."""
    return zip_entries(
        ZipEntry.read(path.relative_to(containers).as_posix(), path)
        for path in source_files(containers, image)
    )


def recent_builds(project: str, codebuild: Any) -> list[Mapping[str, Any]]:
    """List recent builds, newest first; BatchGetBuilds promises no order."""
    listed = codebuild.list_builds_for_project(projectName=project, sortOrder="DESCENDING")
    ids = listed["ids"][:_RECENT_BUILDS]
    found = {build["id"]: build for build in codebuild.batch_get_builds(ids=ids)["builds"]} if ids else {}
    return [found[id_] for id_ in ids if id_ in found]


def running_build(builds: Sequence[Mapping[str, Any]], tag: str) -> str | None:
    """Return the running build of the same tag, if there is one."""
    for build in builds:
        variables = build.get("environment", {}).get("environmentVariables", [])
        told = {variable["name"]: variable["value"] for variable in variables}
        if build["buildStatus"] == "IN_PROGRESS" and told.get("TAG") == tag:
            return str(build["id"])
    return None


def follow(
    build_id: str, region: str, pause: Callable[[float], None] = time.sleep
) -> Iterator[Mapping[str, Any]]:
    """Yield the state of the build repeatedly, the last time when it has ended."""

    def look() -> Mapping[str, Any]:
        build: Mapping[str, Any] = reader("codebuild", region).batch_get_builds(ids=[build_id])["builds"][0]
        return build

    while True:
        build = outlast(look, pause)
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


# Images of a project: a folder images/NAME next to its clusters.py, with a Dockerfile. `slipway image build
# NAME` sends that folder and Slipway's code, which is added on top of what the Dockerfile builds.
FOLDER = "images"
# infra/components/build_image.sh builds the project's Dockerfile first, then this one on top of it.
OWN_FOLDER, ON_TOP = "project", "on_top.Dockerfile"
# Imports that every rank needs before its command starts, besides the standard library.
CHECK = "import slipway.containers.runtime.launch.launcher, slipway.containers.recipes.command.train"
_ON_TOP = f"""ARG BASE
FROM $BASE
ENV PYTHONPATH=/opt/slipway${{PYTHONPATH:+:$PYTHONPATH}}
COPY . /opt/slipway/slipway/containers/
ENTRYPOINT []
RUN python -c "{CHECK}"
"""
_IGNORED = f"{OWN_FOLDER}\n{ON_TOP}\n.dockerignore\n"
_NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
_LONGEST_NAME = 64
_DIGEST_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectImage:
    """Hold the files of a project's image, and the tag that is their digest."""

    name: str
    entries: tuple[ZipEntry, ...]

    @property
    def tag(self) -> str:
        digest = sha256()
        for entry in self.entries:
            digest.update(f"{entry.name}\0{entry.is_program}\0{len(entry.content)}\0".encode())
            digest.update(entry.content)
        return f"own-{self.name}-{digest.hexdigest()[:_DIGEST_LENGTH]}"


def find_project_image(name: str) -> ProjectImage | None:
    """Find the project's own image of this name, if it has one."""
    project = _own_project()
    folder = project.folder / FOLDER / name if project and "/" not in name else None
    if project is None or folder is None or not folder.is_dir():
        return None
    if name in image_names(project.containers):
        raise BadImage(
            f"{FOLDER}/{name} has the name of an image of Slipway", hint="give the folder another name"
        )
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise BadImage(
            f"{FOLDER}/{printable(name)} is no name of an image; allowed are small letters and digits, with "
            f"single '.', '_' and '-' between them, at most {_LONGEST_NAME}",
            hint="give the folder another name",
        )
    if not (folder / "Dockerfile").is_file():
        raise BadImage(
            f"{FOLDER}/{name} has no Dockerfile", hint="write one; any image with Python can be its base"
        )
    refuse_leaving(f"{FOLDER}/{name}", folder / "Dockerfile")
    return ProjectImage(name=name, entries=tuple(_entries(folder, project.containers)))


def resolve_image(asked: str, target: Target) -> str:
    """Return the URI of an image that the user names by its URI, or by its folder in the project."""
    if "/" in asked or not takes_images(target):  # prepare refuses it for targets without images
        return asked
    image = find_project_image(asked)
    if image is None:
        raise _unknown(asked)
    return image_at(image.tag, target)


def planned_image(asked: str) -> str:
    """Return how a plan records an image before it has a cluster: as a URI, or as a project image's tag."""
    if is_image_uri(asked):
        return asked
    image = find_project_image(asked)
    if image is None:
        raise _unknown(asked)
    return image.tag


def image_at(planned: str, target: Target) -> str:
    """Return the URI of an image that a plan recorded, on the cluster that it chose."""
    if "/" in planned:
        return planned
    if not isinstance(target, BatchTarget):
        raise DoesNotFit(
            f"image {printable(planned)} is of your project, and cluster '{target.name}' has no repository "
            "for it",
            hint="push it to your account's registry with docker, and name it by its URI",
        )
    return f"{target.repository_uri}:{planned}"


def _own_project() -> Project | None:
    try:
        project = find_project()
    except NoProject:
        return None
    return None if project.is_checkout else project


def _unknown(asked: str) -> BadImage:
    project = _own_project()
    named = (
        sorted(path.parent.name for path in project.folder.glob(f"{FOLDER}/*/Dockerfile")) if project else []
    )
    there = f"there are {', '.join(named)}" if named else f"write {FOLDER}/{printable(asked)}/Dockerfile"
    return BadImage(
        f"image {printable(asked)} is no URI with a tag, and no folder of {FOLDER}/ of a project here",
        hint=did_you_mean(asked, named, otherwise=there),
    )


def _entries(folder: Path, containers: Path) -> Iterator[ZipEntry]:
    yield ZipEntry(name=".dockerignore", content=_IGNORED.encode())
    yield ZipEntry(name=ON_TOP, content=_ON_TOP.encode())
    for path in code_files(containers):
        yield ZipEntry.read(path.relative_to(containers).as_posix(), path)
    for file in read_folder(folder).files:
        if file.link is not None:
            raise BadImage(
                f"{FOLDER}/{folder.name}/{printable(file.name)} is a symbolic link, which no zip carries",
                hint="put the file itself there",
            )
        yield ZipEntry.read(f"{OWN_FOLDER}/{file.name}", folder / file.name)
