"""What one rank saves: boxes of named tensors, in one safetensors file, with a digest for each stretch of it.

Who reads a box later checks the digests of the stretches that it lies in, and reads nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.tensor_file import TensorData, encode_header, in_file_order
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.errors import Refusal

# 60,000 digests, 4 MB of a manifest, for the 240 GB of a 20B model with Adam's moments.
CHUNK_BYTES = 4 << 20

Parts = Iterator[bytes | memoryview]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePiece:
    """Hold a box of one tensor."""

    name: str  # of the whole tensor
    box: Box
    tensor: TensorData  # of the box's shape

    @property
    def key(self) -> str:
        """Return its name within a file."""
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
    told, begin, taken = [], len(header), 1
    for key, tensor in ordered:
        piece, count = by_key[key], chunk_count(tensor.data.nbytes)
        told.append(_told(piece, begin, digests[taken : taken + count]))
        begin, taken = begin + tensor.data.nbytes, taken + count
    return {"bytes": begin, "header_bytes": len(header), "header_sha256": digests[0], "pieces": told}


def chunk_count(size: int) -> int:
    return -(-size // CHUNK_BYTES)


def _told(piece: FilePiece, begin: int, digests: list[str]) -> Json:
    box: list[Json] = [list(piece.box.offsets), list(piece.box.shape)]
    return [piece.name, piece.tensor.dtype, begin, *box, list(digests)]


def _hashed(header: bytes, tensors: Sequence[TensorData], digests: list[str]) -> Parts:
    """Yield what the file holds; add the digest of each stretch before it is taken."""
    digests.append(hashlib.sha256(header).hexdigest())
    yield header
    for tensor in tensors:
        data = tensor.data.cast("B") if tensor.data.nbytes else memoryview(b"")
        for start in range(0, len(data), CHUNK_BYTES):
            chunk = data[start : start + CHUNK_BYTES]
            digests.append(hashlib.sha256(chunk).hexdigest())
            yield chunk
