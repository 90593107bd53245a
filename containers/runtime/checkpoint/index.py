"""Which tensors a checkpoint holds, and where each piece of them lies: a part of the manifest."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.tensor_file import ITEM_BYTES, is_sizes
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_PIECE_FIELDS = 5
_MOST_DIMENSIONS = 64


class WrongIndex(Refusal):
    """The list of tensors contradicts itself."""


@dataclass(frozen=True, slots=True)
class StoredPiece:
    """Locate a box of a tensor in a file."""

    file: int  # the rank that wrote it
    begin: int  # its first byte there
    box: Box
    digests: tuple[str, ...]  # of each stretch of chunk_bytes; the last may be shorter


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Describe a whole tensor, whoever holds which part of it."""

    dtype: str
    shape: tuple[int, ...]
    pieces: tuple[StoredPiece, ...]

    @property
    def item_bytes(self) -> int:
        return ITEM_BYTES[self.dtype]


Index = Mapping[str, StoredTensor]


def assemble(reports: Sequence[Sequence[Json]]) -> dict[str, StoredTensor]:
    """Put together what all ranks wrote; raise WrongIndex unless it is every tensor exactly once."""
    pieces: dict[str, list[StoredPiece]] = defaultdict(list)
    dtypes: dict[str, set[str]] = defaultdict(set)
    for rank, report in enumerate(reports):
        for entry in report:
            assert isinstance(entry, list), "as write_pieces tells it"
            name, dtype, begin, offsets, shape, digests = entry
            box = Box(tuple(offsets), tuple(shape))  # type: ignore[arg-type]  # likewise
            pieces[str(name)].append(StoredPiece(rank, begin, box, tuple(digests)))  # type: ignore[arg-type]  # likewise
            dtypes[str(name)].add(str(dtype))
    found = {}
    for name, held in sorted(pieces.items()):
        if len(dtypes[name]) > 1 or len({len(piece.box.shape) for piece in held}) > 1:
            raise WrongIndex(f"ranks save {shown(name)} in several types or numbers of dimensions")
        whole = tuple(map(max, zip(*(piece.box.ends for piece in held), strict=True)))
        found[name] = StoredTensor(dtypes[name].pop(), whole, tuple(held))
        _check_whole(name, found[name])
    return found


def encode_index(index: Index) -> dict[str, Json]:
    return {
        name: {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "pieces": [_encode_piece(piece) for piece in tensor.pieces],
        }
        for name, tensor in index.items()
    }


def decode_index(record: Mapping[str, object], sizes: Sequence[tuple[int, int]], chunk: int) -> Index:
    """Decode the index; raise WrongIndex unless it fits `sizes`: header bytes and bytes of each file."""
    found = {name: _decode_tensor(name, entry, chunk) for name, entry in record.items()}
    held: list[list[tuple[int, int]]] = [[] for _ in sizes]
    for name, tensor in found.items():
        _check_whole(name, tensor)
        for piece in tensor.pieces:
            if piece.file >= len(sizes):
                _refuse(f"places {shown(name)} in file {piece.file} of {len(sizes)}")
            end = piece.begin + piece.box.elements * tensor.item_bytes
            held[piece.file].append((piece.begin, end))
    for file, (header, size) in enumerate(sizes):
        _check_covered(file, [(0, header), *sorted(held[file])], size)
    return found


def stretches_of(index: Index, file: int, chunk: int) -> list[tuple[int, int, str]]:
    """Return each stretch of a file after its header, with its digest, in order."""
    found = []
    for tensor in index.values():
        for piece in tensor.pieces:
            if piece.file == file:
                end = piece.begin + piece.box.elements * tensor.item_bytes
                starts = range(piece.begin, end, chunk)
                found += [
                    (start, min(start + chunk, end), digest)
                    for start, digest in zip(starts, piece.digests, strict=True)
                ]
    return sorted(found)


def _encode_piece(piece: StoredPiece) -> Json:
    return [piece.file, piece.begin, list(piece.box.offsets), list(piece.box.shape), list(piece.digests)]


def _decode_tensor(name: str, entry: object, chunk: int) -> StoredTensor:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "pieces"}:
        _refuse(f"describes {shown(name)} with other fields than dtype, shape and pieces")
    dtype, shape, pieces = entry["dtype"], entry["shape"], entry["pieces"]
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES or not isinstance(pieces, list):
        _refuse(f"gives {shown(name)} the unknown dtype {shown(str(dtype))}, or no pieces")
    if not is_sizes(shape) or len(shape) > _MOST_DIMENSIONS:
        _refuse(f"gives {shown(name)} a shape that is not whole numbers from 0")
    decoded = tuple(_decode_piece(name, piece, tuple(shape)) for piece in pieces)
    for piece in decoded:
        if len(piece.digests) != -(-piece.box.elements * ITEM_BYTES[dtype] // chunk):
            _refuse(f"has {len(piece.digests)} digests of a piece of {shown(name)}")
    return StoredTensor(dtype, tuple(shape), decoded)


def _decode_piece(name: str, entry: object, shape: tuple[int, ...]) -> StoredPiece:
    if not isinstance(entry, list) or len(entry) != _PIECE_FIELDS:
        _refuse(f"describes a piece of {shown(name)} with other than {_PIECE_FIELDS} fields")
    file, begin, offsets, sides, digests = entry
    if not all(map(is_sizes, ([file, begin], offsets, sides))) or not len(offsets) == len(sides) == len(
        shape
    ):
        _refuse(f"places a piece of {shown(name)} by other than whole numbers from 0")
    if not isinstance(digests, list) or not all(
        isinstance(digest, str) and _SHA256.fullmatch(digest) for digest in digests
    ):
        _refuse(f"has no digests of a piece of {shown(name)}")
    box = Box(tuple(offsets), tuple(sides))
    if any(end > side for end, side in zip(box.ends, shape, strict=True)):
        _refuse(f"has a piece of {shown(name)} that is larger than the whole")
    return StoredPiece(file, begin, box, tuple(digests))


def _check_whole(name: str, tensor: StoredTensor) -> None:
    """Raise unless the pieces have as many elements as the whole; that none overlaps is the ranks' care."""
    found, wanted = sum(piece.box.elements for piece in tensor.pieces), math.prod(tensor.shape)
    if found != wanted:
        _refuse(f"holds {found} of {wanted} elements of {shown(name)}")


def _check_covered(file: int, spans: list[tuple[int, int]], size: int) -> None:
    """Raise unless each span begins where the one before ended, so that digests cover every byte."""
    reached = 0
    for begin, end in spans:
        if begin != reached:
            _refuse(f"leaves a gap or an overlap at byte {reached} of file {file}")
        reached = end
    if reached != size:
        _refuse(f"describes {reached} of {size} bytes of file {file}")


def _refuse(what: str) -> NoReturn:
    raise WrongIndex(f"the index {what}")
