"""Sources of text: local files and folders here; S3 is in source_s3.py, a URL in source_url.py.

Another kind is a module whose `open_source` returns a FetchSource, and a row of OPENERS in locations.py.
Sources are pickled for worker processes, so they hold no connections: each process opens its own.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

from slipway.containers.data.errors import DataError
from slipway.containers.data.text.documents import decoded, digest_of, read_json, write_json
from slipway.containers.runtime.named_files import UnusableFile, open_regular

LONGEST_NAME_BYTES = 1024  # Amazon S3 user guide, "Naming Amazon S3 objects"


@dataclass(frozen=True, slots=True, order=True)
class SourceFile:
    name: str
    size_bytes: int
    etag: str = ""  # identifies the content; empty for local files

    def __post_init__(self) -> None:
        check_name(self.name)


class Source(Protocol):
    @property
    def files(self) -> tuple[SourceFile, ...]: ...

    @property
    def location(self) -> str:
        """Return the address without secrets, for messages and manifests; "" for local files."""

    @property
    def reads_at_once(self) -> int:
        """Return how many reads to run in parallel; above 1 if each takes long to answer."""

    def read(self, name: str, start: int, length: int) -> bytes:
        """Read exactly this stretch; raise DataError if there is less."""


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
            # A file may have become a link or a FIFO since it was listed.
            with BufferedReader(open_regular(self.root / name, follow_links=False)) as file:
                file.seek(start)
                found = file.read(length)
        except UnusableFile as error:
            raise DataError(error.message, hint=error.hint) from error
        except OSError as error:
            raise _unreadable(self.root / name, error) from error
        return whole(name, start, length, found)


@dataclass(frozen=True, slots=True)
class FetchSource:
    """Read with `fetch(file, start, stop)`, which returns these bytes of an object and must be picklable."""

    files: tuple[SourceFile, ...]  # sorted
    fetch: Callable[[SourceFile, int, int], bytes]
    location: str = ""
    reads_at_once: int = 1

    def read(self, name: str, start: int, length: int) -> bytes:
        file = self.files[bisect_left(self.files, name, key=lambda file: file.name)]
        assert file.name == name, f"{name} is not a file of the source"
        return whole(name, start, length, self.fetch(file, start, start + length))


def local_source(path: Path, names: tuple[str, ...] = ()) -> LocalSource:
    """Open a file, all files of a folder, or only the named files below it."""
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
    """Return the path of a file under root; refuse a name that leads out of root by dots or links."""
    check_name(name)
    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise DataError(f"{name!r} leads out of {root}", hint="a name must stay inside its folder")
    return path


def check_name(name: str) -> None:
    """Refuse odd names: they are written to manifests and messages, and read back as paths."""
    parts = name.split("/")
    # isprintable() is false for control characters and for the surrogates that stand for broken UTF-8.
    if not name.isprintable() or len(name.encode()) > LONGEST_NAME_BYTES:
        raise DataError(
            f"the name {name[:80]!r} cannot be used",
            hint=f"names are printable UTF-8 of at most {LONGEST_NAME_BYTES} bytes",
        )
    if "" in parts or "." in parts or ".." in parts:
        raise DataError(
            f"the name {name[:80]!r} leads out of its folder, or has an empty part",
            hint="use names without '..', '.' or '//'",
        )


def _walk(folder: Path) -> Iterator[Path]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_symlink():
            raise DataError(
                f"{entry.path} is a symbolic link, and links are not followed",
                hint="put the file itself there, or give the folder it points to",
            )
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _walk(Path(entry.path))
        else:
            yield Path(entry.path)


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"cannot read {path}: {error.strerror}", hint="let this user read it, or leave it out")


def _size(path: Path) -> int:
    try:
        status = path.lstat()
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path} is not a regular file", hint="remove it, or give the text files by name")
    return status.st_size


def whole(name: str, start: int, length: int, found: bytes) -> bytes:
    if len(found) != length:
        raise DataError(
            f"{name} gave {len(found)} of {length} bytes from byte {start} on: it changed while it was read",
            hint="run the same command again when nothing writes to it",
        )
    return found


# Remote files are read ahead, several blocks in parallel; that does not change what is read.
# A block is so large that S3's tens of milliseconds to the first byte do not matter.
BLOCK_BYTES = 4 << 20
AHEAD_BYTES = 16 << 20
AHEAD_BLOCKS = 16  # limits the requests for small files

Stretch = tuple[str, int, int]  # name, start, stop
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def at_once(source: Source, work: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
    """Return work(item) for each item in order, in parallel threads if the source is remote."""
    if source.reads_at_once == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(source.reads_at_once) as pool:
        return list(pool.map(work, items))


@dataclass(slots=True)
class Block:
    name: str
    start: int
    stop: int
    found: Future[bytes]


class Ahead:
    """Read stretches ahead in the given order; a read out of that order goes to the source directly."""

    def __init__(self, source: Source, stretches: Iterable[Stretch]) -> None:
        self._source = source
        self._pool = ThreadPoolExecutor(source.reads_at_once)
        self._coming = (
            (name, at, min(at + BLOCK_BYTES, stop))
            for name, start, stop in stretches
            for at in range(start, stop, BLOCK_BYTES)
        )
        self._waiting: deque[Block] = deque()
        self._name, self._start, self._held = "", 0, b""
        self._fill()

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def read(self, name: str, start: int, length: int) -> bytes:
        if not self._goes_on(name, start):
            return self._source.read(name, start, length)
        parts = [self._held[start - self._start :]]
        missing = length - len(parts[0])
        while missing > 0:
            block, at = self._waiting.popleft(), start + length - missing
            assert (block.name, block.start) == (name, at), f"{name} is read out of order, at byte {at}"
            parts.append(block.found.result())
            self._fill()
            missing -= len(parts[-1])
        self._start, self._held = start, b"".join(parts)
        return self._held[:length]

    def _goes_on(self, name: str, start: int) -> bool:
        """Return True if the read continues the last one, or begins the next stretch."""
        if name == self._name and self._start <= start <= self._start + len(self._held):
            return True
        is_next = bool(self._waiting) and (self._waiting[0].name, self._waiting[0].start) == (name, start)
        if is_next:
            self._name, self._start, self._held = name, start, b""
        return is_next

    def _fill(self) -> None:
        coming = sum(block.stop - block.start for block in self._waiting)
        while len(self._waiting) < AHEAD_BLOCKS and coming < AHEAD_BYTES:
            stretch = next(self._coming, None)
            if stretch is None:
                return
            name, start, stop = stretch
            coming += stop - start
            self._waiting.append(
                Block(name, start, stop, self._pool.submit(self._source.read, name, start, stop - start))
            )


def read_whole(source: Source, name: str) -> bytes:
    """Read one whole file of the source."""
    size = next(file.size_bytes for file in source.files if file.name == name)
    if source.reads_at_once == 1:
        return source.read(name, 0, size)
    with Ahead(source, [(name, 0, size)]) as reader:
        return reader.read(name, 0, size)


# input.json lists the names, sizes and ETags of the objects that a dataset is made from, if they are remote.
# Each shard's record holds its digest, so a repeated run need not read the text of finished shards.
NAME = "input.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOrigin:
    """Identify the input in the manifest; both fields are empty for local files."""

    location: str = ""
    version: str = ""
    """The digest of the names, sizes and ETags that input.json lists."""


def origin_of(source: Source) -> InputOrigin:
    if not any(file.etag for file in source.files):
        return InputOrigin()
    return InputOrigin(location=source.location, version=input_digest(source))


def write_origin(folder: Path, source: Source) -> None:
    origin = origin_of(source)
    path = folder / NAME
    if not origin.version:
        path.unlink(missing_ok=True)
    elif read_origin(folder) != origin:
        write_json(path, {"location": origin.location, "version": origin.version, "files": _files(source)})


def read_origin(folder: Path) -> InputOrigin:
    path = folder / NAME
    if not path.exists():
        return InputOrigin()
    content = read_json(path)
    if digest_of(content.pop("files", None)) != content.get("version"):
        raise DataError(f"{path} is damaged", hint="remove it and run the same preparation again")
    return decoded(InputOrigin, content, folder)


def input_digest(source: Source) -> str:
    """Return a digest of the names, sizes and ETags of the source's files."""
    return digest_of(_files(source))


def _files(source: Source) -> list[list[object]]:
    return [[file.name, file.size_bytes, file.etag] for file in source.files]
