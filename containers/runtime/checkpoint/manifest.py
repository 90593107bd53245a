"""The manifest of a checkpoint: what was saved, by whom, where each piece lies, and the digest of all bytes.

It is written last. A new fact is one field of Manifest and one row of _FIELDS.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from slipway.containers.runtime.checkpoint.index import Index, WrongIndex, decode_index, encode_index
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

NAME = "MANIFEST.json"
SCHEMA = 2
FIRST_SCHEMA = 1
MOST_BYTES = 512 << 20  # a thousand ranks, each with a piece of every tensor of a large model

# In a bucket a draft cannot be renamed: its files stay below the attempt and token that wrote them.
_FILE_NAME = re.compile(r"([0-9]{1,9}-[0-9a-f]{12}/)?rank-[0-9]{5,7}\.safetensors", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class DamagedCheckpoint(Refusal):
    """The folder looks like a checkpoint and cannot be trusted."""


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
