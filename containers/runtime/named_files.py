"""Read a file that a user named: a regular file, of a bounded size, opened without waiting.

Everything that reads a path from an option, a setting, a variable or a folder goes through here.
A FIFO would wait for its writer, and a device may never end.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from slipway.containers.runtime.errors import Refusal

_CHUNK_BYTES = 1 << 20
# O_NONBLOCK changes nothing for a regular file, and opening a FIFO returns at once.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class UnusableFile(Refusal):
    """The named file is missing, too large, not a regular file, or not readable as what it should be."""


class MissingFile(UnusableFile):
    """There is no file of this name."""


def open_regular(path: Path, *, follow_links: bool = True) -> FileIO:
    """Open a regular file for reading; raise UnusableFile for any other kind, and OSError as `open` does."""
    descriptor = _open(path, _FLAGS if follow_links else _FLAGS | os.O_NOFOLLOW)
    try:
        # Asked of what was opened: the name may lead elsewhere by now.
        _refuse_other_kinds(path, os.fstat(descriptor).st_mode)
        return FileIO(descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path, most_bytes: int) -> bytes:
    """Read a whole file of at most `most_bytes`; raise UnusableFile with the reason where that cannot be."""
    try:
        with open_regular(path) as file:
            return read_open(file, path, most_bytes)
    except FileNotFoundError:
        raise MissingFile(f"{path} does not exist", hint="correct the name, or put the file there") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise UnusableFile(
            f"{str(path)!a} cannot be read: {reason}", hint="name a file that you may read"
        ) from None


def read_text(path: Path, most_bytes: int) -> str:
    """Read a whole UTF-8 file of at most `most_bytes`; a byte order mark at its beginning is dropped."""
    try:
        return read_bytes(path, most_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnusableFile(
            f"{path} is not UTF-8 text (byte {error.start})", hint="save it as UTF-8"
        ) from None


def read_open(file: FileIO, path: Path, most_bytes: int) -> bytes:
    """Read what is left of an open file; it may grow meanwhile, and some tell no size."""
    size = os.fstat(file.fileno()).st_size
    parts, total = [], 0
    while size <= most_bytes and (part := file.read(min(_CHUNK_BYTES, most_bytes + 1 - total))):
        parts.append(part)
        total += len(part)
        size = max(size, total)
    if size > most_bytes:
        raise UnusableFile(
            f"{path} has {size} bytes or more, and at most {most_bytes} are read",
            hint="is it the right file?",
        )
    return b"".join(parts)


def _open(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ENXIO:  # open(2): a socket, or a device that is not there
            _refuse_other_kinds(path, path.stat().st_mode)
        raise


def _refuse_other_kinds(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "no file")
    raise UnusableFile(
        f"{path} is {kind}, and must be a regular file", hint="name a regular file, or copy it into one"
    )
