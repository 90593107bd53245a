"""Whether a published checkpoint is what was saved: its manifest, its sizes, or every byte of a file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from slipway.containers.runtime.checkpoint import manifest
from slipway.containers.runtime.checkpoint.index import stretches_of
from slipway.containers.runtime.checkpoint.manifest import DamagedCheckpoint, Manifest, OtherFormat
from slipway.containers.runtime.checkpoint.storage import (
    Storage,
    UnpublishedStep,
    Unreachable,
    place_of,
    reason,
)
from slipway.containers.runtime.disk import unwatched
from slipway.containers.runtime.named_files import UnusableFile


def read_manifest(storage: Storage, step: int) -> Manifest:
    """Read a published step; raise OtherFormat, or DamagedCheckpoint with the reason."""
    try:
        content = storage.manifest(step)
    except FileNotFoundError:
        raise DamagedCheckpoint(f"it has no {manifest.NAME}") from None
    except UnusableFile as error:
        raise DamagedCheckpoint(error.message) from None
    except NotADirectoryError as error:
        raise DamagedCheckpoint(str(error)) from None
    except Unreachable:
        raise
    except OSError as error:
        raise DamagedCheckpoint(f"{manifest.NAME} cannot be read: {reason(error)}") from None
    record = manifest.decode(content, where=f"{place_of(storage, step)}/{manifest.NAME}")
    if record.step != step:
        raise DamagedCheckpoint(f"its manifest is of step {record.step}")
    return record


def is_of_other_format(storage: Storage, step: int) -> bool:
    """Return True if another Slipway saved this checkpoint, so that nothing here may discard it."""
    try:
        read_manifest(storage, step)
    except OtherFormat:
        return True
    except DamagedCheckpoint:
        return False
    return False


def check_sizes(storage: Storage, where: UnpublishedStep | int, record: Manifest) -> None:
    """Raise DamagedCheckpoint unless all files are there with the sizes that the manifest says."""
    try:
        found = storage.sizes(where)
    except Unreachable:
        raise
    except OSError as error:
        raise DamagedCheckpoint(f"its files cannot be listed: {reason(error)}") from None
    for file in record.ranks:
        if file.name not in found:
            raise DamagedCheckpoint(f"{file.name} is missing, or not a regular file")
        if found[file.name] != file.bytes:
            raise DamagedCheckpoint(f"{file.name} has {found[file.name]} bytes instead of {file.bytes}")


def check_content(
    storage: Storage, record: Manifest, rank: int, moved: Callable[[], None] = unwatched
) -> None:
    """Read a rank's file and raise DamagedCheckpoint unless every byte is as it was saved."""
    file = record.ranks[rank]
    stretches = [
        (0, file.header_bytes, file.header_sha256),
        *stretches_of(record.tensors, rank, record.chunk_bytes),
    ]
    wanted = [digest for _, _, digest in stretches]
    try:
        parts = storage.read(record.step, file.name, [(start, stop) for start, stop, _ in stretches])
        for part, digest in zip(parts, wanted, strict=True):
            if hashlib.sha256(part).hexdigest() != digest:
                raise DamagedCheckpoint(f"{file.name} does not hold what was saved (its sha256 differs)")
            moved()
    except UnusableFile as error:
        raise DamagedCheckpoint(error.message) from None
    except Unreachable:
        raise
    except OSError as error:
        raise DamagedCheckpoint(f"{file.name} cannot be read: {reason(error)}") from None
