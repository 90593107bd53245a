"""A folder as one archive: the same files make the same bytes, whoever packs them, wherever and when."""

from __future__ import annotations

import gzip
import os
import tarfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, cast

from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.named_files import open_regular
from slipway.jobs.code.folder import ProjectFile, ProjectFolder, stamp_of
from slipway.jobs.code.listing import CannotShip
from slipway.jobs.words.text import printable

_MODE, _PROGRAM_MODE = 0o644, 0o755
_AGAIN = "run the same command again when nothing writes to it, or name it in .gitignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedProject:
    digest: str  # of the archive before it is compressed: releases of zlib differ in their bytes
    archive: Path  # compressed
    files: int
    size_bytes: int  # of the files
    packed_bytes: int


class _Hashed:
    """Compress what is written, and hash it as it was."""

    def __init__(self, compressed: gzip.GzipFile) -> None:
        self._compressed = compressed
        self.digest = sha256()

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return self._compressed.write(content)


def pack_project(folder: ProjectFolder, archive: Path) -> PackedProject:
    """Write the archive; refuse a file that is not what it was when the folder was looked at."""
    with archive.open("xb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as compressed:
        hashed = _Hashed(compressed)
        stream = cast(BinaryIO, hashed)  # a stream of tar is only written to
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for file in folder.files:
                _add(tar, folder.path, file)
    return PackedProject(
        digest=hashed.digest.hexdigest(),
        archive=archive,
        files=len(folder.files),
        size_bytes=folder.size_bytes,
        packed_bytes=archive.stat().st_size,
    )


def _add(tar: tarfile.TarFile, folder: Path, file: ProjectFile) -> None:
    """Add a file with nothing of this machine: no owner, no time, and only the executable bit."""
    entry = tarfile.TarInfo(file.name)
    entry.mode = _PROGRAM_MODE if file.is_program else _MODE
    if file.link is not None:
        entry.type, entry.linkname = tarfile.SYMTYPE, file.link
        tar.addfile(entry)
        return
    entry.size = file.size_bytes
    try:
        with open_regular(folder / file.name, follow_links=False) as content:
            if stamp_of(os.fstat(content.fileno())) != file.stamp:
                raise _changed(file)
            tar.addfile(entry, content)
            if stamp_of(os.fstat(content.fileno())) != file.stamp:
                raise _changed(file)
    except FileNotFoundError:
        raise _changed(file) from None
    except Refusal as refusal:  # what was a file is a folder or a FIFO by now
        raise CannotShip(refusal.message, hint=_AGAIN) from None
    except OSError as error:  # tarfile says so of a file that became shorter, without an errno
        if error.errno is None:
            raise _changed(file) from None
        raise CannotShip(
            f"{printable(file.name)} cannot be read: {error.strerror}", hint="make it readable, or ignore it"
        ) from None


def _changed(file: ProjectFile) -> CannotShip:
    return CannotShip(f"{printable(file.name)} changed while it was read", hint=_AGAIN)
