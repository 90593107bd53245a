"""Write files that survive a crash: they are written whole and synced before they get their final names.

Everything goes through `os`, one call after the other, so that tests can end the process before each call.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from slipway.containers.runtime import named_files
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

CHUNK_BYTES = 8 << 20
# Without syncs in between, a checkpoint waits in memory for one long last sync, which looks like a hang.
_SYNCED_BYTES = 512 << 20
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)  # of file systems without hard links
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    bytes: int
    sha256: str


def unwatched() -> None:
    """Do nothing, for callers that do not watch progress."""


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock of this file, which one process at a time can have."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@contextmanager
def new_folder(finished: Path) -> Iterator[Path]:
    """Yield the name of a folder to make, which gets its own name once filled and replaces an older one."""
    unfinished = finished.with_name(f".{finished.name}-unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        yield unfinished
        sync_folder(unfinished)
        shutil.rmtree(finished, ignore_errors=True)
        unfinished.rename(finished)
        sync_folder(finished.parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_new(
    path: Path, parts: Iterable[bytes | memoryview], moved: Callable[[], None] = unwatched
) -> Digest:
    """Write and sync a new file; return the digest of what was meant, so that reading finds what the disk
    lost."""
    running, total = hashlib.sha256(), 0

    def counted() -> Iterator[bytes | memoryview]:
        nonlocal total
        for part in parts:
            running.update(part)
            total += len(part)
            yield part

    write_synced(path, counted(), moved)
    return Digest(bytes=total, sha256=running.hexdigest())


def write_synced(
    path: Path, parts: Iterable[bytes | memoryview], moved: Callable[[], None] = unwatched
) -> None:
    """Write and sync a new file. `moved` is called whenever the disk has taken a piece."""
    unsynced = 0
    descriptor = os.open(path, _NEW, 0o644)
    try:
        for part in parts:
            for written in _write_all(descriptor, part):
                unsynced += written
                if unsynced >= _SYNCED_BYTES:
                    os.fsync(descriptor)
                    unsynced = 0
                moved()
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes, *, token: str) -> None:
    """Replace a file atomically: readers find the old content or the new, never a part."""
    fresh = path.with_name(f"{path.name}.{token}")
    with suppress(FileNotFoundError):
        fresh.unlink()
    write_new(fresh, [content])
    fresh.replace(path)
    sync_folder(path.parent)


def create_whole(path: Path, content: bytes, *, token: str) -> None:
    """Create a file atomically: one creator succeeds, the others get FileExistsError, and nobody finds
    half a file."""
    fresh = path.with_name(f"{path.name}.{token}")
    write_new(fresh, [content])
    try:
        os.link(fresh, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        write_new(path, [content])
    finally:
        fresh.unlink()
    sync_folder(path.parent)


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """Read a file of at most `most_bytes`, following no link."""
    with open_existing(path) as file:
        return named_files.read_open(file, path, most_bytes)


def read_at(file: FileIO, start: int, room: memoryview) -> memoryview:
    """Fill memory from an open file; return the part that was filled, all of it except at the file's end."""
    done = 0  # a shared file system may answer in parts
    while done < len(room) and (read := os.preadv(file.fileno(), [room[done:]], start + done)):
        done += read
    return room[:done]


def sync_folder(path: Path) -> None:
    """Sync a folder: a new name is only as durable as the folder that holds it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_existing(path: Path) -> FileIO:
    """Open a regular file without following a link."""
    return named_files.open_regular(path, follow_links=False)


def discard_folder(path: Path, trash: Path) -> None:
    """Move a folder out of sight in one step, so that late writers cannot damage it in part; then delete
    it."""
    with suppress(FileNotFoundError):
        path.rename(trash)
    shutil.rmtree(trash, ignore_errors=True)


def folder_within(root: str, *names: str) -> Path:
    """Return the folder below `root` that a user named; raise Refusal if it leads anywhere else."""
    base = Path(root).resolve()
    for name in names:
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise Refusal(f"{shown(name)} cannot name a folder below {base}", hint="use one plain name")
    below = base.joinpath(*names)
    if not below.resolve().is_relative_to(base):
        raise Refusal(f"{below} leads out of {base}", hint="remove the symbolic link")
    return below


def _write_all(descriptor: int, part: bytes | memoryview) -> Iterator[int]:
    rest = memoryview(part)
    while rest:
        written = os.write(descriptor, rest[:CHUNK_BYTES])
        rest = rest[written:]
        yield written
