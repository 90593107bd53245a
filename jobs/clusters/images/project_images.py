"""Images of a project's own: a folder images/NAME beside its clusters, with a Dockerfile.

`slipway image build NAME` sends the folder with Slipway's code; what the Dockerfile makes gets it on top.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from slipway.jobs.clusters.images.builds import ZipEntry
from slipway.jobs.code.folder import read_folder
from slipway.jobs.platforms.platform import takes_images
from slipway.jobs.words.errors import SlipwayError, did_you_mean
from slipway.jobs.words.images.containers import code_files, image_names, is_image_uri
from slipway.jobs.words.installation import NoProject, Project, find_project
from slipway.jobs.words.job import DoesNotFit
from slipway.jobs.words.targets import BatchTarget, Target
from slipway.jobs.words.text import printable

FOLDER = "images"
# infra/components/build_image.sh builds the folder first, and on top of it the second file.
OWN_FOLDER, ON_TOP = "project", "on_top.Dockerfile"
# What a rank needs before its command starts: the standard library and this.
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


class BadImage(SlipwayError):
    """Reports a folder of images/ that makes no image."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectImage:
    """Hold what makes an image, and the tag that is a digest of all that."""

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
    """Return the project's own image of this name, if it has one."""
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
        raise BadImage(f"{FOLDER}/{name} has no Dockerfile", hint="write one; it may be FROM any with Python")
    return ProjectImage(name=name, entries=tuple(_entries(folder, project.containers)))


def resolve_image(asked: str, target: Target) -> str:
    """Return the URI of an image that a person names by it, or by its folder in the project."""
    if "/" in asked or not takes_images(target):  # which is refused when the job is prepared
        return asked
    image = find_project_image(asked)
    if image is None:
        raise _unknown(asked)
    return image_at(image.tag, target)


def planned_image(asked: str) -> str:
    """Return what a plan notes of an image, without a cluster: a URI, or the tag of the project's own."""
    if is_image_uri(asked):
        return asked
    image = find_project_image(asked)
    if image is None:
        raise _unknown(asked)
    return image.tag


def image_at(planned: str, target: Target) -> str:
    """Return the URI of an image that a plan noted, on the cluster that it chose."""
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
