"""Encode and decode the manifest of a checkpoint: who saved it, its files, pieces of tensors, and digests.

It is written last. A new fact is one field of Manifest and one row of _FIELDS.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import NoReturn

from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.tensor_file import ITEM_BYTES, is_sizes
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

# The index of a checkpoint's tensors, and of the place of each piece: a part of the manifest.
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
    """Describe a whole tensor, with the pieces that ranks hold of it."""

    dtype: str
    shape: tuple[int, ...]
    pieces: tuple[StoredPiece, ...]

    @property
    def item_bytes(self) -> int:
        return ITEM_BYTES[self.dtype]


Index = Mapping[str, StoredTensor]


def assemble(reports: Sequence[Sequence[Json]]) -> dict[str, StoredTensor]:
    """Assemble the pieces of all ranks; raise WrongIndex unless they are every tensor exactly once."""
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
    """Raise unless the pieces have as many elements as the whole; ranks must avoid overlaps themselves."""
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


NAME = "MANIFEST.json"
SCHEMA = 2
FIRST_SCHEMA = 1
MOST_BYTES = 512 << 20  # a thousand ranks, each with a piece of every tensor of a large model

# A bucket cannot rename a draft: its files stay below the attempt and token that wrote them.
_FILE_NAME = re.compile(r"([0-9]{1,9}-[0-9a-f]{12}/)?rank-[0-9]{5,7}\.safetensors", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class DamagedCheckpoint(Refusal):
    """The folder looks like a checkpoint, but cannot be trusted."""


class OtherFormat(Refusal):
    """Another Slipway saved this checkpoint: skipping it loses its steps, overwriting it loses all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFile:
    name: str
    bytes: int
    header_bytes: int
    header_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    step: int
    job: str
    run: str
    attempt: int
    world: int
    topology: dict[str, int]
    config: dict[str, Json]  # what must be the same for these tensors to mean anything
    cursor: Json  # where in the data the next step begins
    chunk_bytes: int  # what one digest stands for
    ranks: tuple[RankFile, ...]  # in order of rank
    tensors: Index


_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "step": int,
    "job": str,
    "run": str,
    "attempt": int,
    "world": int,
    "topology": dict,
    "config": dict,
    "cursor": object,
    "chunk_bytes": int,
    "ranks": list,
    "tensors": dict,
}


def file_name(rank: int) -> str:
    return f"rank-{rank:05d}.safetensors"


def encode(manifest: Manifest) -> bytes:
    """Return the manifest as JSON with its own digest, so that a flipped bit in the step or cursor is
    found too."""
    body: dict[str, object] = {"schema": SCHEMA}
    body |= {name: getattr(manifest, name) for name in _FIELDS}
    body["ranks"] = [asdict(file) for file in manifest.ranks]
    body["tensors"] = encode_index(manifest.tensors)
    return json.dumps({**body, "sha256": digest_of(body)}, ensure_ascii=True).encode() + b"\n"


def decode(content: bytes, *, where: str = NAME) -> Manifest:
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        raise DamagedCheckpoint(f"{NAME} is not JSON") from None
    if not isinstance(record, dict):
        raise DamagedCheckpoint(f"{NAME} is not a JSON object")
    digest = record.pop("sha256", None)
    _refuse_other_format(record, digest, where)
    if digest != digest_of(record):
        raise DamagedCheckpoint(f"{NAME} does not match its own digest")
    schema = record.pop("schema", None)
    if type(schema) is not int or schema != SCHEMA:
        raise DamagedCheckpoint(f"{NAME} has schema {schema!r}, which no Slipway writes")
    return _decode_fields(record)


def _decode_fields(record: dict[str, object]) -> Manifest:
    if record.keys() != _FIELDS.keys() or not all(
        isinstance(record[name], wanted) for name, wanted in _FIELDS.items()
    ):
        raise DamagedCheckpoint(f"{NAME} lacks a field, or one is of the wrong type")
    entries, tensors, chunk = record.pop("ranks"), record.pop("tensors"), record["chunk_bytes"]
    assert isinstance(entries, list), "as _FIELDS says"
    assert isinstance(tensors, dict), "likewise"
    if type(chunk) is not int or chunk < 1:
        raise DamagedCheckpoint(f"{NAME} has digests of {chunk!r} bytes each")
    ranks = tuple(_rank_file(rank, entry) for rank, entry in enumerate(entries))
    if len(ranks) != record["world"]:
        raise DamagedCheckpoint(f"{NAME} lists {len(ranks)} files for {record['world']} ranks")
    try:
        index = decode_index(tensors, [(file.header_bytes, file.bytes) for file in ranks], chunk)
    except WrongIndex as error:
        raise DamagedCheckpoint(f"{NAME}: {error}") from None
    return Manifest(ranks=ranks, tensors=index, **record)  # type: ignore[arg-type]  # as _FIELDS says


def _refuse_other_format(record: Mapping[str, object], digest: object, where: str) -> None:
    """Raise OtherFormat for another format, whatever the digest says: that format may compute it in another
    way.

    A manifest that is valid under our own schema is ours, with a flipped bit in its format number.
    """
    schema = record.get("schema")
    if type(schema) is not int or schema < FIRST_SCHEMA or schema == SCHEMA:
        return
    if digest == digest_of({**record, "schema": SCHEMA}):
        return
    which = "a newer one" if schema > SCHEMA else "an older one"
    raise OtherFormat(
        f"{where} has schema {schema}, and this Slipway reads {SCHEMA}",
        hint=f"resume with the Slipway that saved it, {which}, or name another checkpoint folder",
    )


def _rank_file(rank: int, entry: object) -> RankFile:
    """Decode one entry and accept only a name that this rank's file has, so a foreign manifest cannot
    point out of its folder."""
    if not isinstance(entry, dict) or entry.keys() != {field.name for field in fields(RankFile)}:
        raise DamagedCheckpoint(f"{NAME} lacks a field of rank {rank}")
    name = str(entry["name"])
    if not _FILE_NAME.fullmatch(name) or name.rpartition("/")[2] != file_name(rank):
        raise DamagedCheckpoint(f"{NAME} names {shown(name)} as the file of rank {rank}")
    sizes = (entry["bytes"], entry["header_bytes"])
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise DamagedCheckpoint(f"{NAME} has no size of rank {rank}")
    if not isinstance(entry["header_sha256"], str) or not _SHA256.fullmatch(entry["header_sha256"]):
        raise DamagedCheckpoint(f"{NAME} has no digest of rank {rank}")
    return RankFile(**entry)


def digest_of(body: Mapping[str, object]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
