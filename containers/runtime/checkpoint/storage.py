"""The interface of a checkpoint storage, such as a folder or bucket, and the file that a rank writes there.

A new storage is one class with these methods (folder.py is one). All raise OSError if the storage fails.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.tensor_file import TensorData, encode_header, in_file_order
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.errors import Refusal

LARGEST_STEP = 10**10 - 1


class Unreachable(OSError):
    """The storage does not answer, so its checkpoints may still be sound."""

    lasts = False  # True: no later attempt would find it otherwise


Stretches = Sequence[tuple[int, int]]  # of a file: the first byte, and the one after the last


@dataclass(frozen=True, slots=True)
class UnpublishedStep:
    """Identify a checkpoint that is being written, which is not visible before it is published."""

    step: int
    attempt: int
    token: str


class LeaseFile(Protocol):
    """Hold the content of a lease. Each method reads or changes it atomically; a storage that fails is no
    missing lease."""

    def read(self) -> bytes | None:
        """Return the content, or None if there is no lease."""

    def stamp(self) -> Hashable:
        """Return a value that changes with every renewal; None if there is no lease."""

    def create(self, content: bytes, token: str) -> bool:
        """Write the first lease; return False if there is one."""

    def replace(self, content: bytes, token: str) -> bool:
        """Replace the lease that was read or stamped last; return False if it is known to have changed."""

    def renew(self) -> None:
        """Change the stamp, but never the content, which may be a newer holder's."""

    def remove(self) -> None: ...


class Storage(Protocol):
    """Keep the checkpoints of one training. Its `str` is the place in words."""

    def open(self) -> LeaseFile:
        """Create the storage if needed; return its lease."""

    def sweep(self) -> None:
        """Remove unfinished files of ended attempts. Only the holder of the lease may call it."""

    def steps(self) -> list[int]:
        """Return the published steps, newest first."""

    def manifest(self, step: int) -> bytes: ...

    def sizes(self, where: UnpublishedStep | int) -> Mapping[str, int]:
        """Return the bytes of each file of a draft or a published step, by the manifest's names."""

    def file_name(self, draft: UnpublishedStep, rank: int) -> str:
        """Return the manifest's name of a rank's file."""

    def read(
        self, step: int, name: str, stretches: Stretches, rooms: Sequence[memoryview] = ()
    ) -> Iterator[memoryview]:
        """Yield the bytes of each stretch of a file, read into the room given for it, if any."""

    def write(self, draft: UnpublishedStep, rank: int, parts: Parts, moved: Callable[[], None]) -> None:
        """Write a rank's file durably; call `moved` whenever a piece is taken."""

    def publish(self, draft: UnpublishedStep, manifest: bytes, check: Callable[[], None]) -> None:
        """Make a draft the checkpoint of its step in one action, right after `check`; replace what was there
        before it, and nothing that came later."""

    def abandon(self, draft: UnpublishedStep) -> None: ...

    def discard(self, step: int) -> None: ...

    def beside(self) -> AbstractContextManager[Path]:
        """Yield a local folder whose files lie beside the checkpoints afterwards."""


def step_name(step: int) -> str:
    return f"step-{step:010d}"


def place_of(storage: Storage, step: int) -> str:
    """Return where a step lies, in words."""
    return f"{storage}/{step_name(step)}"


def reason(error: OSError) -> str:
    """Return why the storage failed."""
    if error.errno is None:
        return str(error)
    return os.strerror(error.errno) + (f" ({error.filename})" if error.filename else "")


# A rank saves boxes of named tensors in one safetensors file, with a digest for each stretch of the file.
# A reader of a box reads and verifies only the stretches that hold it.
# 60,000 digests, 4 MB of a manifest, for the 240 GB of a 20B model with Adam's moments.
CHUNK_BYTES = 4 << 20
_HASHED_AHEAD = 2  # stretches, each in a thread of its own: one thread hashes slower than good disks write

Parts = Iterator[bytes | memoryview]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePiece:
    """Hold a box of one tensor."""

    name: str  # of the whole tensor
    box: Box
    tensor: TensorData  # of the box's shape

    @property
    def key(self) -> str:
        """Return the piece's name within a file."""
        return f"{self.name}@{','.join(map(str, self.box.offsets))}"


def write_pieces(pieces: Sequence[FilePiece], write: Callable[[Parts], None]) -> dict[str, Json]:
    """Write the pieces with `write`; return what the manifest must say of this file."""
    by_key = {piece.key: piece for piece in pieces}
    if len(by_key) != len(pieces):
        raise Refusal("a rank saves a piece of a tensor twice")
    ordered = in_file_order({key: piece.tensor for key, piece in by_key.items()})
    header = encode_header(ordered)
    digests: list[str] = []
    write(_hashed(header, [tensor for _, tensor in ordered], digests))
    told: list[Json] = []
    begin, taken = len(header), 1
    for key, tensor in ordered:
        piece, count = by_key[key], -(-tensor.data.nbytes // CHUNK_BYTES)
        box: list[Json] = [list(piece.box.offsets), list(piece.box.shape)]
        told.append([piece.name, piece.tensor.dtype, begin, *box, list(digests[taken : taken + count])])
        begin, taken = begin + tensor.data.nbytes, taken + count
    return {"bytes": begin, "header_bytes": len(header), "header_sha256": digests[0], "pieces": told}


def _hashed(header: bytes, tensors: Sequence[TensorData], digests: list[str]) -> Parts:
    """Yield what the file holds; add the digest of each stretch before it is taken. The next ones are hashed
    while it is written."""
    coming: deque[tuple[bytes | memoryview, Future[str]]] = deque()
    with ThreadPoolExecutor(_HASHED_AHEAD) as pool:
        for part in _stretches(header, tensors):
            coming.append((part, pool.submit(_hex_digest, part)))
            if len(coming) > _HASHED_AHEAD:
                yield _taken(coming, digests)
        while coming:
            yield _taken(coming, digests)


def _stretches(header: bytes, tensors: Sequence[TensorData]) -> Parts:
    yield header
    for tensor in tensors:
        data = tensor.data.cast("B") if tensor.data.nbytes else memoryview(b"")
        for start in range(0, len(data), CHUNK_BYTES):
            yield data[start : start + CHUNK_BYTES]


def _taken(coming: deque[tuple[bytes | memoryview, Future[str]]], digests: list[str]) -> bytes | memoryview:
    part, digest = coming.popleft()
    digests.append(digest.result())
    return part


def _hex_digest(part: bytes | memoryview) -> str:
    return hashlib.sha256(part).hexdigest()
