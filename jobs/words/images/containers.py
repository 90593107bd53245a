"""Selects the files of an image and computes its tag, the same for infra and for `slipway image build`.

Also reads an image's lock, compares it with an AMI, and reads URIs of images.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from slipway.jobs.words.errors import SlipwayError, did_you_mean
from slipway.jobs.words.job import DoesNotFit
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import printable

_TAG_LENGTH = 16
# Left by tools: never part of an image, or its tag would differ from machine to machine.
JUNK_FOLDERS = frozenset({"__pycache__"})
_JUNK_SUFFIXES = frozenset({".pyc", ".pyo", ".swp", ".orig", ".tmp"})


def image_names(containers: Path) -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in containers.glob("images/*/Dockerfile")))


def container_names(containers: Path) -> tuple[str, ...]:
    """List the folders that describe containers: built from a Dockerfile here, or published by AWS."""
    published = (
        path.parent.name for path in containers.glob("images/*/lock.toml") if "registry" in lock_tables(path)
    )
    return tuple(sorted({*image_names(containers), *published}))


def container_platforms(containers: Path, image: str) -> frozenset[tuple[str, str]]:
    """Return the devices, each with a processor architecture, of the image's [runs_on]."""
    path = containers / "images" / image / "lock.toml"
    tables = lock_tables(path) if path.is_file() else {}
    return frozenset(
        (device, architecture)
        for device, architectures in tables.get("runs_on", {}).items()
        for architecture in architectures
    )


def lock_tables(path: Path) -> Mapping[str, Any]:
    """Read a lock. One command reads the same few locks dozens of times, so each text is decoded once."""
    return _decoded(path.read_text(encoding="utf-8"))


@lru_cache(maxsize=64)
def _decoded(text: str) -> Mapping[str, Any]:
    return tomllib.loads(text)


def image_tag(containers: Path, image: str) -> str:
    """Return a digest of the names, modes and bytes of the image's files."""
    digest = sha256()
    for path in source_files(containers, image):
        content = path.read_bytes()
        executable = bool(path.stat().st_mode & 0o100)
        digest.update(f"{path.relative_to(containers).as_posix()}\0{executable}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:_TAG_LENGTH]


def source_files(containers: Path, image: str) -> tuple[Path, ...]:
    """List all files under containers/ except other images' folders, in the same order everywhere."""
    known = image_names(containers)
    if image not in known:
        raise SlipwayError(
            f"there is no image '{image}' in {containers / 'images'}",
            hint=did_you_mean(image, known, otherwise=f"there are {', '.join(known) or 'none'}"),
        )
    files = [path for path in _walk(containers) if _belongs(path.relative_to(containers), image)]
    return tuple(sorted(files, key=lambda path: path.relative_to(containers).as_posix()))


def code_files(containers: Path) -> tuple[Path, ...]:
    """List the code that jobs run: all files under containers/ except the images' folders."""
    files = [path for path in _walk(containers) if path.relative_to(containers).parts[0] != "images"]
    return tuple(sorted(files, key=lambda path: path.relative_to(containers).as_posix()))


def _walk(folder: Path) -> list[Path]:
    found: list[Path] = []
    for path in folder.iterdir():
        hidden = path.name.startswith(".") and path.name != ".dockerignore"
        if hidden or path.name in JUNK_FOLDERS or path.suffix in _JUNK_SUFFIXES or path.name.endswith("~"):
            continue
        if path.is_symlink():
            raise SlipwayError(
                f"{path} is a symbolic link, and an image is built only from the files of its own tree",
                hint="put the file itself there",
            )
        if not (path.is_dir() or path.is_file()):
            raise SlipwayError(
                f"{path} is not a regular file", hint="remove it: an image is built from files"
            )
        found += _walk(path) if path.is_dir() else [path]
    return found


def _belongs(path: Path, image: str) -> bool:
    return path.parts[0] != "images" or len(path.parts) < 3 or path.parts[1] == image


# What an image and the AMI under it are locked to: containers/images/<image>/lock.toml.
# `[image]` says what the container holds, `[host]` what the AMI must hold. What that does hold, its
# manifest says: JSON in the SSM parameter beside the one that names it. A version known to fail is a row of
# LAST_VERSION, two that do not go together are a row of PAIRS.
# The last version of a component that still supports an accelerator, by their names in catalogue and lock.
# Habana's support matrix: first-generation Gaudi is in 1.21.0 and no longer in 1.22.0.
LAST_VERSION: Mapping[tuple[str, str], str] = {("Habana Gaudi HL-205", "synapseai"): "1.21"}


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRule:
    """Requires a least version of one component with versions of another from `since` on."""

    component: str
    since: str
    needs: str
    at_least: str
    source: str


PAIRS = (
    VersionRule(
        component="neuron-driver",
        since="2.29",
        needs="neuron-runtime",
        at_least="2.33",
        source="Neuron SDK 2.31, known issues: nrt_init() fails",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    image: Mapping[str, str]
    host: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedTorch:
    image: str  # a folder of containers/images
    version: str


def read_lock(containers: Path, image: str) -> Lock | None:
    """Read the image's lock; None if it has none, as images without a driver do."""
    path = containers / "images" / image / "lock.toml"
    if not path.is_file():
        return None
    try:
        tables = lock_tables(path)
    except ValueError as error:
        raise SlipwayError(f"{path} is not valid TOML: {error}", hint="fix it, or take it from git") from None
    return Lock(image=_versions(path, tables, "image"), host=_versions(path, tables, "host"))


def locked_torch(containers: Path, image: str) -> LockedTorch | None:
    """Return the version of PyTorch in this image; None if no lock names one."""
    lock = read_lock(containers, image)
    versions = {**lock.image, **lock.host} if lock else {}
    # The vendor's own Python is next to that of the node's programs: jobs/platforms/on_nodes.py.
    version = versions.get("training-pytorch", versions.get("pytorch"))
    return None if version is None else LockedTorch(image=image, version=version)


def unsupported(accelerator: str, lock: Lock) -> tuple[str, ...]:
    """Describe each component of the lock that no longer supports the accelerator."""
    return tuple(
        f"{component} {version} no longer supports {accelerator}; the last that does is {last}"
        for (device, component), last in LAST_VERSION.items()
        for version in {lock.image.get(component), lock.host.get(component)}
        if device == accelerator and version is not None and _numbers(version) > _numbers(last)
    )


def apart(lock: Lock) -> tuple[str, ...]:
    """Describe each two components of the lock that do not work together."""
    versions = {**lock.image, **lock.host}
    return tuple(
        f"{pair.component} {versions[pair.component]} needs {pair.needs} {pair.at_least} or later, and "
        f"{pair.needs} is {versions[pair.needs]} ({pair.source})"
        for pair in PAIRS
        if pair.component in versions
        and pair.needs in versions
        and _numbers(versions[pair.component]) >= _numbers(pair.since)
        and _numbers(versions[pair.needs]) < _numbers(pair.at_least)
    )


def manifest_parameter(ami_parameter: str) -> str:
    """Return the manifest's parameter: /slipway/amis/gaudi-ecs/manifest for /slipway/amis/gaudi-ecs/id."""
    return f"{ami_parameter.rpartition('/')[0]}/manifest"


def mismatches(lock: Lock, manifest: Mapping[str, object]) -> tuple[str, ...]:
    """Describe where an AMI differs from what the lock requires."""
    return tuple(
        f"{component} is {manifest.get(component, 'missing')}, locked is {version}"
        for component, version in lock.host.items()
        if manifest.get(component) != version
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Return major and minor number: 1.21.3 counts as 1.21."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _versions(path: Path, tables: Mapping[str, object], name: str) -> Mapping[str, str]:
    table = tables.get(name, {})
    if isinstance(table, dict) and all(isinstance(version, str) for version in table.values()):
        return table
    raise SlipwayError(
        f"[{name}] of {path} must hold only versions as texts", hint='write synapseai = "1.18.0"'
    )


# The URI of a container image that a user names for a job, and whether a cluster may pull it. Pure.
_REPOSITORY = r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
_TAG, _DIGEST = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", r"sha256:[0-9a-f]{64}"
_URI = re.compile(
    rf"(?P<registry>[a-z0-9.-]+)/(?P<repository>{_REPOSITORY})(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUri:
    """Hold the parts of REGISTRY/REPOSITORY:TAG, or of one with @sha256:… at its end."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None

    def pinned(self, digest: str) -> str:
        """Return the URI with the digest, which always means the same image."""
        return f"{self.registry}/{self.repository}@{digest}"


def is_image_uri(text: str) -> bool:
    """Return True for a URI that says which image of a repository it means."""
    found = _URI.fullmatch(text)
    return found is not None and bool(found["tag"] or found["digest"])


def read_image(uri: str, target: Target) -> ImageUri:
    """Read a URI; refuse one that the roles of the cluster cannot pull."""
    found = _URI.fullmatch(uri)
    own = own_registry(target)
    if found is None or not is_image_uri(uri):
        raise DoesNotFit(
            f"--image {printable(uri)} is no image; one is {own}/REPOSITORY:TAG, or the name of a folder of "
            "your project's images/",
            hint="slipway image build NAME --on CLUSTER pushes one",
        )
    image = ImageUri(**found.groupdict())
    if image.registry not in (own, f"{own}.cn") and not _is_the_clusters(image, target):
        raise DoesNotFit(
            f"--image {uri} is of {image.registry}, and the nodes of '{target.name}' may pull from "
            f"{own} alone",
            hint="copy it there, or begin images/NAME/Dockerfile with it: slipway image build NAME",
        )
    return image


def own_registry(target: Target) -> str:
    return f"{target.account}.dkr.ecr.{target.region}.amazonaws.com"


def _is_the_clusters(image: ImageUri, target: Target) -> bool:
    """Return True for another tag of the image that the cluster declares, which its role may pull."""
    declared = str(getattr(target, "repository_uri", "") or getattr(target, "image", "")) + ":"
    return declared.startswith(f"{image.registry}/{image.repository}:")
