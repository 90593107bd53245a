"""What an image and the AMI under it are locked to: containers/images/<image>/lock.toml.

`[image]` says what the container holds, `[host]` what the AMI must hold. What that does hold, its
manifest says: JSON in the SSM parameter beside the one that names it. A version known to fail is a row of
LAST_VERSION, two that do not go together are a row of PAIRS.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway.jobs.words.errors import SlipwayError

# The last version of a component that still supports an accelerator, by their names in catalogue and lock.
# Habana's support matrix: first-generation Gaudi is in 1.21.0 and no longer in 1.22.0.
LAST_VERSION: Mapping[tuple[str, str], str] = {("Habana Gaudi HL-205", "synapseai"): "1.21"}


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRule:
    """Requires a least version of one component from some version of another on."""

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
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SlipwayError(f"{path} is not valid TOML: {error}", hint="fix it, or take it from git") from None
    return Lock(image=_versions(path, tables, "image"), host=_versions(path, tables, "host"))


def locked_torch(containers: Path, image: str) -> LockedTorch | None:
    """Return the PyTorch that ranks run on in this image; None if no lock names one."""
    lock = read_lock(containers, image)
    versions = {**lock.image, **lock.host} if lock else {}
    # A vendor's own stands beside the one of the node's programs: jobs/platforms/rank_python.py.
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
    """/slipway/amis/gaudi-ecs/id has its manifest in /slipway/amis/gaudi-ecs/manifest."""
    return f"{ami_parameter.rpartition('/')[0]}/manifest"


def mismatches(lock: Lock, manifest: Mapping[str, object]) -> tuple[str, ...]:
    """Describe where an AMI differs from what the lock requires."""
    return tuple(
        f"{component} is {manifest.get(component, 'missing')}, locked is {version}"
        for component, version in lock.host.items()
        if manifest.get(component) != version
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor: 1.21.3 still counts as 1.21."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _versions(path: Path, tables: Mapping[str, object], name: str) -> Mapping[str, str]:
    table = tables.get(name, {})
    if isinstance(table, dict) and all(isinstance(version, str) for version in table.values()):
        return table
    raise SlipwayError(
        f"[{name}] of {path} must hold only versions as texts", hint='write synapseai = "1.18.0"'
    )
