"""The manifest of a checkpoint: what was saved, by whom, and the digest of every file. It is written last.

A new fact is one field of Manifest and one row of _FIELDS.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from slipway.containers.runtime import disk
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.disk import Digest
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.named_files import UnusableFile
from slipway.containers.runtime.values import shown

NAME = "MANIFEST.json"
SCHEMA = 1
MOST_BYTES = 64 << 20  # a thousand ranks with their random state

_FILE_NAME = re.compile(r"rank-[0-9]{5,7}\.safetensors", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class DamagedCheckpoint(Refusal):
    """The folder looks like a checkpoint and cannot be trusted."""


class NewerCheckpoint(Refusal):
    """A newer Slipway saved this checkpoint: skipping it loses its steps, overwriting it loses all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFile:
    name: str
    bytes: int
    sha256: str
    state: Json  # of this rank alone: random generators and the like

    @property
    def digest(self) -> Digest:
        return Digest(bytes=self.bytes, sha256=self.sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    step: int
    job: str
    run: str
    attempt: int
    world: int
    topology: dict[str, int]
    config: dict[str, Json]  # what must be the same for these tensors to mean anything
    cursor: Json  # where in the data the next step begins
    ranks: tuple[RankFile, ...]  # in order of rank


_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "step": int,
    "job": str,
    "run": str,
    "attempt": int,
    "world": int,
    "topology": dict,
    "config": dict,
    "cursor": object,
    "ranks": list,
}


def file_name(rank: int) -> str:
    return f"rank-{rank:05d}.safetensors"


def encode(manifest: Manifest) -> bytes:
    """Return the manifest as JSON with its own digest, so that a flipped bit in the step or cursor is
    found too."""
    body = {"schema": SCHEMA, **asdict(manifest)}
    return json.dumps({**body, "sha256": digest_of(body)}, indent=1, ensure_ascii=True).encode() + b"\n"


def decode(content: bytes, *, where: str = NAME) -> Manifest:
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        raise DamagedCheckpoint(f"{NAME} is not JSON") from None
    if not isinstance(record, dict):
        raise DamagedCheckpoint(f"{NAME} is not a JSON object")
    digest = record.pop("sha256", None)
    _refuse_newer(record, digest, where)
    if digest != digest_of(record):
        raise DamagedCheckpoint(f"{NAME} does not match its own digest")
    schema = record.pop("schema", None)
    if type(schema) is not int or schema != SCHEMA:
        raise DamagedCheckpoint(f"{NAME} has schema {schema!r}, which no Slipway writes")
    if record.keys() != _FIELDS.keys() or not all(
        isinstance(record[name], wanted) for name, wanted in _FIELDS.items()
    ):
        raise DamagedCheckpoint(f"{NAME} lacks a field, or one is of the wrong type")
    ranks = tuple(_rank_file(rank, entry) for rank, entry in enumerate(record.pop("ranks")))
    if len(ranks) != record["world"]:
        raise DamagedCheckpoint(f"{NAME} lists {len(ranks)} files for {record['world']} ranks")
    return Manifest(ranks=ranks, **record)


def read_manifest(folder: Path) -> Manifest:
    """Read a published folder; raises NewerCheckpoint, or DamagedCheckpoint with the reason."""
    try:
        if not disk.is_real_folder(folder):
            raise DamagedCheckpoint("it is a link or a file, not a folder")
        return decode(disk.read_bounded(folder / NAME, MOST_BYTES), where=f"{folder}/{NAME}")
    except FileNotFoundError:
        raise DamagedCheckpoint(f"it has no {NAME}") from None
    except UnusableFile as error:
        raise DamagedCheckpoint(error.message) from None
    except OSError as error:
        raise DamagedCheckpoint(f"{NAME} cannot be read: {os.strerror(error.errno or 0)}") from None


def is_newer(folder: Path) -> bool:
    """Return True if a newer Slipway saved this checkpoint, so that nothing here may discard it."""
    try:
        read_manifest(folder)
    except NewerCheckpoint:
        return True
    except DamagedCheckpoint:
        return False
    return False


def check_size(folder: Path, file: RankFile) -> None:
    try:
        found = (folder / file.name).lstat()
    except OSError as error:
        raise DamagedCheckpoint(f"{file.name} cannot be read: {os.strerror(error.errno or 0)}") from None
    if not stat.S_ISREG(found.st_mode):
        raise DamagedCheckpoint(f"{file.name} is not a regular file")
    if found.st_size != file.bytes:
        raise DamagedCheckpoint(f"{file.name} has {found.st_size} bytes instead of {file.bytes}")


def check_content(folder: Path, file: RankFile) -> None:
    check_size(folder, file)
    try:
        found = disk.digest(folder / file.name)
    except OSError as error:
        raise DamagedCheckpoint(f"{file.name} cannot be read: {os.strerror(error.errno or 0)}") from None
    if found != file.digest:
        raise DamagedCheckpoint(f"{file.name} does not hold what was saved (its sha256 differs)")


def _refuse_newer(record: Mapping[str, object], digest: object, where: str) -> None:
    """Raise NewerCheckpoint for a newer format, whatever the digest says: that format may compute it in
    another way.

    A manifest that is valid under our own schema is ours, with a flipped bit in its format number.
    """
    schema = record.get("schema")
    if type(schema) is not int or schema <= SCHEMA or digest == digest_of({**record, "schema": SCHEMA}):
        return
    raise NewerCheckpoint(
        f"{where} has schema {schema}, and this Slipway reads {SCHEMA}",
        hint="resume with the Slipway that saved it or a newer one, or name another checkpoint folder",
    )


def _rank_file(rank: int, entry: object) -> RankFile:
    """Decode one entry and accept only the name that this rank's file has, so a foreign manifest cannot
    point out of its folder."""
    if not isinstance(entry, dict) or entry.keys() != {"name", "bytes", "sha256", "state"}:
        raise DamagedCheckpoint(f"{NAME} lacks a field of rank {rank}")
    name, size, sha256 = entry["name"], entry["bytes"], entry["sha256"]
    if name != file_name(rank) or not _FILE_NAME.fullmatch(name):
        raise DamagedCheckpoint(f"{NAME} names {shown(str(name))} as the file of rank {rank}")
    if type(size) is not int or size < 0 or not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise DamagedCheckpoint(f"{NAME} has no size or digest of rank {rank}")
    return RankFile(**entry)


def digest_of(body: Mapping[str, object]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
