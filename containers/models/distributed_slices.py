"""Read slices of weights that torch.distributed.checkpoint saved, from local files or S3.

A rank reads only the chunks that overlap its part. `.metadata`, a pickle, says where the chunks of tensors
lie in the .distcp files. It is read without its classes: objects become inert records, so nothing can run.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor

from slipway.containers.data.sources.sources import Source, at_once
from slipway.containers.models.slices import SAMPLE_BYTES, TensorPlace, TensorSlices
from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.tensor_file import TensorEntry, stored_type, torch_type
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

METADATA, SUFFIX = ".metadata", ".distcp"
# Prefixes of a model's names: PyTorch's tutorials save it as model or as app.model; "" is a bare model.
PREFIXES = ("model.", "app.model.", "")
_DAMAGED = (
    *(pickle.UnpicklingError, zipfile.BadZipFile, EOFError, RuntimeError),
    *(ValueError, LookupError, TypeError, AttributeError),
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Locate a box of a tensor: the output of one torch.save, inside a file."""

    box: Box
    file: str
    begin: int
    length: int


@dataclass(frozen=True, slots=True)
class DistributedSlices(TensorSlices):
    """Read rows of the tensors of a folder of torch.distributed.checkpoint."""

    chunks: Mapping[str, tuple[Chunk, ...]]

    @classmethod
    def decode(cls, place: str, source: Source, metadata: bytes) -> DistributedSlices:
        """Read the list of tensors, without their contents."""
        sizes = {file.name: file.size_bytes for file in source.files}
        try:
            found = dict(_tensors(_Records(io.BytesIO(metadata)).load()))
        except _DAMAGED as error:
            _refuse(place, f"has a {METADATA} that torch.distributed.checkpoint did not write", error)
        for name, (entry, chunks) in found.items():
            for chunk in chunks:
                if chunk.file not in sizes or chunk.begin + chunk.length > sizes[chunk.file]:
                    _refuse(place, f"lacks the part of {shown(name)} at byte {chunk.begin} of {chunk.file}")
            if sum(chunk.box.elements for chunk in chunks) != Box.whole(entry.shape).elements:
                _refuse(place, f"has not all of {shown(name)}")
        places = {name: TensorPlace(chunks[0].file, entry) for name, (entry, chunks) in found.items()}
        return cls(place, source, places, {name: chunks for name, (_, chunks) in found.items()})

    def fingerprint(self) -> str:
        """Return a digest of all names, boxes and some bytes of each chunk, without reading the whole."""
        running = hashlib.sha256()
        for name, chunks in sorted(self.chunks.items()):
            running.update(f"{name} {self.tensors[name].entry.dtype}".encode())
            for chunk in chunks:
                length = min(SAMPLE_BYTES, chunk.length // 2)
                running.update(f" {chunk.box}".encode())
                running.update(self.source.read(chunk.file, chunk.begin + chunk.length // 2, length))
        return running.hexdigest()

    def read_rows(self, name: str, begin: int, target: Tensor, column: int = 0) -> None:
        """Fill `target` with rows of a tensor from row `begin` on, each from `column` on."""
        asked = Box((begin, column, *target.shape[2:])[: target.ndim], tuple(target.shape))

        def read(chunk: Chunk) -> None:
            if (part := chunk.box.overlap(asked)) is None:
                return
            content = io.BytesIO(self.source.read(chunk.file, chunk.begin, chunk.length))
            try:
                found = _saved_tensor(content, torch_type(self.tensors[name].entry.dtype))
            except _DAMAGED as error:
                _refuse(self.place, f"has a damaged part of {shown(name)} in {chunk.file}", error)
            if tuple(found.shape) != chunk.box.shape:
                _refuse(self.place, f"has something else than {shown(name)} in {chunk.file}")
            target[part.within(asked).slices].copy_(found[part.within(chunk.box).slices])

        with torch.no_grad():
            at_once(self.source, read, self.chunks[name])


def _saved_tensor(content: io.BytesIO, dtype: torch.dtype) -> Tensor:
    """Return the tensor that torch.save wrote; unlike torch.load, check its bytes (zip's CRC)."""
    with zipfile.ZipFile(content) as archive:
        folder = archive.namelist()[0].partition("/")[0]
        record = _Records(io.BytesIO(archive.read(f"{folder}/data.pkl"))).load()
        if record.named != "torch._utils._rebuild_tensor_v2":
            raise ValueError(f"it is made by {record.named}")
        _, first, sides, steps, *_ = record.given
        stored = archive.getinfo(f"{folder}/data/0")
        if stored.compress_type != zipfile.ZIP_STORED or stored.file_size % dtype.itemsize:
            raise ValueError("its bytes are not as torch.save lays them")
        memory = bytearray(archive.read(stored))
    flat = torch.frombuffer(memory, dtype=dtype) if memory else torch.empty(0, dtype=dtype)
    return flat.as_strided(sides, steps, first)


class InertRecord:
    """Replace an object of any class that a pickle names."""

    named: ClassVar[str]
    given: tuple[Any, ...]
    state: Any = None

    def __new__(cls, *given: Any) -> InertRecord:
        made = super().__new__(cls)
        made.given = given
        return made

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Records(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return type(name, (InertRecord,), {"named": f"{module}.{name}"})

    def persistent_load(self, named: Any) -> Any:
        return named


def _tensors(metadata: Any) -> Iterator[tuple[str, tuple[TensorEntry, tuple[Chunk, ...]]]]:
    """Yield the tensors that the library's Metadata describes, with the model's own names."""
    described: Mapping[str, InertRecord] = metadata.state["state_dict_metadata"]
    tensors = {name: one for name, one in described.items() if one.named.endswith(".TensorStorageMetadata")}
    if not tensors:
        raise ValueError("it describes no tensor")
    prefix = next(one for one in PREFIXES if any(name.startswith(one) for name in tensors))
    held: dict[str, list[Chunk]] = {name: [] for name in tensors}
    for at, where in metadata.state["storage_data"].items():
        if (name := at.state["fqn"]) in tensors:
            held[name].append(_chunk(tensors[name], at, where))
    for name, one in tensors.items():
        dtype = stored_type(one.state["properties"].state[0].named.removeprefix("torch."))
        if name.startswith(prefix) and held[name] and dtype is not None:
            shape = _sides(one.state["size"])
            yield name.removeprefix(prefix), (TensorEntry(dtype, shape, 0, 0), tuple(held[name]))


def _chunk(tensor: InertRecord, at: InertRecord, where: InertRecord) -> Chunk:
    offsets, shape = _sides(at.state["offset"]), _sides(tensor.state["size"])
    sides = {_sides(one.state["offsets"]): _sides(one.state["sizes"]) for one in tensor.state["chunks"]}
    if not len(offsets) == len(sides[offsets]) == len(shape):
        raise ValueError(f"a chunk at {offsets} of a tensor of {shape}")
    if where.state.get("transform_descriptors"):
        raise ValueError("its tensors are packed by an extension")
    begin, length = where.state["offset"], where.state["length"]
    if not type(begin) is type(length) is int or begin < 0 or length < 0:
        raise ValueError(f"a chunk lies at {begin!r}, {length!r} bytes long")
    return Chunk(Box(offsets, sides[offsets]), where.state["relative_path"], begin, length)


def _sides(record: InertRecord) -> tuple[int, ...]:
    """Return a pickled torch.Size as a tuple."""
    (sides,) = record.given
    if not all(type(side) is int and side >= 0 for side in sides):
        raise ValueError(f"{sides} are no sizes")
    return tuple(sides)


def _refuse(place: str, what: str, error: Exception | None = None) -> NoReturn:
    why = f": {shown(str(error))}" if error else ""
    raise Refusal(f"{place} {what}{why}", hint="save it again, or convert it to safetensors") from None
