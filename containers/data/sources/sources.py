"""What text is read from: a local file or folder here; S3 in source_s3.py, a URL in source_url.py.

Another place is a function to fetch with, and a row of OPENERS in locations.py. Workers are processes: a
source is a value that can be pickled, and opens its connections where it reads.
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


# Reads from far away: several at once, and before they are asked for. Neither changes what is read.
# Large enough that S3's tens of milliseconds to the first byte do not count.
BLOCK_BYTES = 4 << 20
AHEAD_BYTES = 16 << 20
AHEAD_BLOCKS = 16  # of small files

Stretch = tuple[str, int, int]  # name, start, stop
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def at_once(source: Source, work: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
    """Return the answers in the order of the items."""
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
    """Read stretches ahead in this order, mostly once each; any other read goes to the source."""

    def __init__(self, source: Source, stretches: Iterable[Stretch]) -> None:
        self._source = source
        self._pool = ThreadPoolExecutor(source.reads_at_once)
        self._coming = _blocks(stretches)
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
            parts.append(self._next(name, start + length - missing))
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

    def _next(self, name: str, start: int) -> bytes:
        block = self._waiting.popleft()
        assert (block.name, block.start) == (name, start), f"{name} is read from {start} on, out of order"
        content = block.found.result()
        self._fill()
        return content

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


def _blocks(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    for name, start, stop in stretches:
        for at in range(start, stop, BLOCK_BYTES):
            yield name, at, min(at + BLOCK_BYTES, stop)


def read_whole(source: Source, name: str) -> bytes:
    """Read one file of the source from its first byte to its last."""
    size = next(file.size_bytes for file in source.files if file.name == name)
    if source.reads_at_once == 1:
        return source.read(name, 0, size)
    with Ahead(source, [(name, 0, size)]) as reader:
        return reader.read(name, 0, size)


# input.json: which versions of which objects a dataset is made from. Local files have none.
# A shard's record holds its digest, so that a repeated run reads only the text of what it makes.
NAME = "input.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOrigin:
    """Record what the manifest says of the input; both fields are empty for local files."""

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
    """Return a digest of the names, lengths and ETags of what a source holds."""
    return digest_of(_files(source))


def _files(source: Source) -> list[list[object]]:
    return [[file.name, file.size_bytes, file.etag] for file in source.files]
