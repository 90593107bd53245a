"""What text is read from: a local file or folder here; S3 in source_s3.py, a URL in source_url.py.

Another place is a function to fetch with, and a row of OPENERS in inputs.py. Workers are processes: a source
is a value that can be pickled, and opens its connections where it reads.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Protocol

from slipway.containers.data.errors import DataError
from slipway.containers.runtime.named_files import UnusableFile, open_regular

LONGEST_NAME_BYTES = 1024  # Amazon S3 user guide, "Naming Amazon S3 objects"


@dataclass(frozen=True, slots=True, order=True)
class SourceFile:
    name: str
    size_bytes: int
    etag: str = ""  # of this very content, where the source knows one

    def __post_init__(self) -> None:
        check_name(self.name)


class Source(Protocol):
    @property
    def files(self) -> tuple[SourceFile, ...]: ...

    @property
    def location(self) -> str:
        """Return the location for people and manifests, without secrets; empty for local files, which may
        move."""

    @property
    def reads_at_once(self) -> int:
        """Return how many reads to ask for together; above 1 if answers take their time."""

    def read(self, name: str, start: int, length: int) -> bytes:
        """Read exactly this stretch; less is an error."""


@dataclass(frozen=True, slots=True)
class LocalSource:
    root: Path
    files: tuple[SourceFile, ...]
    is_folder: bool = True

    @property
    def location(self) -> str:
        return ""

    @property
    def reads_at_once(self) -> int:
        return 1

    def read(self, name: str, start: int, length: int) -> bytes:
        try:
            # What was a file when it was listed may be a link or a FIFO by now.
            with BufferedReader(open_regular(self.root / name, follow_links=False)) as file:
                file.seek(start)
                found = file.read(length)
        except UnusableFile as error:
            raise DataError(error.message, hint=error.hint) from error
        except OSError as error:
            raise DataError(f"cannot read {self.root / name}: {error.strerror}") from error
        return whole(name, start, length, found)


@dataclass(frozen=True, slots=True)
class FetchSource:
    """Read through `fetch(file, start, stop)`, which returns these bytes of an object; workers need it
    picklable."""

    files: tuple[SourceFile, ...]  # sorted
    fetch: Callable[[SourceFile, int, int], bytes]
    location: str = ""
    reads_at_once: int = 1

    def read(self, name: str, start: int, length: int) -> bytes:
        file = self.files[bisect_left(self.files, name, key=lambda file: file.name)]
        assert file.name == name, f"{name} is none of the source's files"
        return whole(name, start, length, self.fetch(file, start, start + length))


def local_source(path: Path, names: tuple[str, ...] = ()) -> LocalSource:
    """Open a file, a folder with all that lies in it, or only the files of these names below it."""
    if not path.exists():
        raise DataError(f"--input {path} does not exist", hint="give a file or a folder of text")
    path = path.resolve()
    root = path if path.is_dir() else path.parent
    if names:
        found = [inside(root, name) for name in names]
    else:
        found = list(_walk(root)) if path.is_dir() else [path]
    files = [SourceFile(file.relative_to(root).as_posix(), _size(file)) for file in found]
    return LocalSource(root, tuple(sorted(files)), path.is_dir())


def inside(root: Path, name: str) -> Path:
    """Return the file of this name under root; refuse a name that leads out of it by dots or links."""
    check_name(name)
    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise DataError(f"{name!r} leads out of {root}", hint="a name must stay inside its folder")
    return path


def check_name(name: str) -> None:
    """Refuse odd names: they go into manifests and messages and come back as paths."""
    parts = name.split("/")
    # isprintable() is false for control characters and for the surrogates that stand for broken UTF-8.
    if not name.isprintable() or len(name.encode()) > LONGEST_NAME_BYTES:
        raise DataError(
            f"the name {name[:80]!r} cannot be used",
            hint=f"names are printable UTF-8 of at most {LONGEST_NAME_BYTES} bytes",
        )
    if "" in parts or "." in parts or ".." in parts:
        raise DataError(
            f"the name {name[:80]!r} leads out of its root or nowhere",
            hint="use names without '..', '.' or '//'",
        )


def _walk(folder: Path) -> Iterator[Path]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_symlink():
            raise DataError(
                f"{entry.path} is a symbolic link, and those are not followed",
                hint="put the file itself there, or give the folder it points to",
            )
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _walk(Path(entry.path))
        else:
            yield Path(entry.path)


def _size(path: Path) -> int:
    try:
        status = path.lstat()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path} is not a regular file", hint="remove it, or give the text files by name")
    return status.st_size


def whole(name: str, start: int, length: int, found: bytes) -> bytes:
    if len(found) != length:
        raise DataError(
            f"{name} gave {len(found)} of {length} bytes at byte {start}: it changed while it was read",
            hint="run the same command again when nothing writes to it",
        )
    return found
