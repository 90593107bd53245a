"""Read and write safetensors files, which hold nothing that could run; a header is checked before it is used.

A file is 8 bytes of header length, a JSON header, then raw little-endian bytes
(https://huggingface.co/docs/safetensors, "Format"). PyTorch's tensors are converted to these bytes and back.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from slipway.containers.runtime import disk
from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.disk import Digest
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

ITEM_BYTES: Mapping[str, int] = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "U16": 2,
    "I16": 2,
    "F16": 2,
    "BF16": 2,
    "U32": 4,
    "I32": 4,
    "F32": 4,
    "U64": 8,
    "I64": 8,
    "F64": 8,
}
MOST_HEADER_BYTES = 32 << 20  # 100,000 tensors and more; the length comes from the file, so it is not trusted
_LENGTH_BYTES = 8
_METADATA = "__metadata__"


class DamagedTensorFile(Refusal):
    """The file does not match its header or its manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorData:
    dtype: str  # a key of ITEM_BYTES
    shape: tuple[int, ...]
    data: memoryview  # of bytes, C order

    def __post_init__(self) -> None:
        if self.dtype not in ITEM_BYTES:
            raise Refusal(f"dtype {shown(self.dtype)} cannot be stored; can be: {', '.join(ITEM_BYTES)}")
        wanted = math.prod(self.shape) * ITEM_BYTES[self.dtype]
        if self.data.nbytes != wanted:
            raise Refusal(f"shape {self.shape} of {self.dtype} is {wanted} bytes, not {self.data.nbytes}")


def write_tensors(path: Path, tensors: Mapping[str, TensorData]) -> Digest:
    return disk.write_new(path, _parts(in_file_order(tensors)))


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Say where a tensor lies in its file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int  # its first byte
    end: int


def decode_entries(
    path: Path, size: int, read: Callable[[int, int], bytes | memoryview]
) -> dict[str, TensorEntry]:
    """Decode the header of a file of `size` bytes, of which `read(start, length)` returns a stretch."""
    header, start = _header(path, size, read)
    entries = {name: _entry(path, name, entry) for name, entry in header.items() if name != _METADATA}
    _refuse_gaps(path, entries, size - start)
    return {
        name: TensorEntry(dtype, shape, start + begin, start + end)
        for name, (dtype, shape, begin, end) in entries.items()
    }


_Entry = tuple[str, tuple[int, ...], int, int]


def encode_header(ordered: list[tuple[str, TensorData]]) -> bytes:
    """Return the bytes before the tensors, which must follow in this order."""
    header: dict[str, object] = {}
    offset = 0
    for name, tensor in ordered:
        if name == _METADATA:
            raise Refusal(f"a tensor cannot be named {_METADATA}: the format keeps that name for itself")
        end = offset + tensor.data.nbytes
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    encoded = json.dumps(header, separators=(",", ":")).encode()
    padded = encoded + b" " * (-len(encoded) % _LENGTH_BYTES)
    return len(padded).to_bytes(_LENGTH_BYTES, "little") + padded


def in_file_order(tensors: Mapping[str, TensorData]) -> list[tuple[str, TensorData]]:
    """Sort widest first, as the reference implementation does: each then lies at a multiple of its item
    size."""
    return sorted(tensors.items(), key=lambda item: (-ITEM_BYTES[item[1].dtype], item[0]))


def _parts(ordered: list[tuple[str, TensorData]]) -> Iterator[bytes | memoryview]:
    yield encode_header(ordered)
    for _, tensor in ordered:
        yield tensor.data.cast("B") if tensor.data.nbytes else b""


def _header(
    path: Path, size: int, read: Callable[[int, int], bytes | memoryview]
) -> tuple[dict[str, object], int]:
    length = int.from_bytes(read(0, min(_LENGTH_BYTES, size)), "little")
    start = _LENGTH_BYTES + length
    if length > MOST_HEADER_BYTES or start > size:
        _refuse(
            path,
            f"announces a header of {length} bytes; at most {MOST_HEADER_BYTES}, inside the file, are read",
        )
    try:
        header = json.loads(bytes(read(_LENGTH_BYTES, length)), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"has a header that is not JSON: {shown(str(error))}")
    if not isinstance(header, dict):
        _refuse(path, "has a header that is not an object")
    return header, start


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a name twice")
    return record


def _entry(path: Path, name: str, entry: object) -> _Entry:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        _refuse(path, f"describes {shown(name)} with other fields than dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        _refuse(path, f"gives {shown(name)} the unknown dtype {shown(str(dtype))}")
    if not is_sizes(shape) or not is_sizes(offsets) or len(offsets) != 2:
        _refuse(path, f"gives {shown(name)} sizes that are not whole numbers from 0")
    begin, end = offsets
    if end - begin != math.prod(shape) * ITEM_BYTES[dtype]:
        _refuse(path, f"gives {shown(name)} {end - begin} bytes, which do not fit its shape")
    return dtype, tuple(shape), begin, end


def is_sizes(value: object) -> bool:
    """Return True for a list of sizes. To Python a bool is an int; to JSON it is not."""
    return (
        isinstance(value, list)
        and len(value) <= 64
        and all(type(each) is int and each >= 0 for each in value)
    )


def _refuse_gaps(path: Path, entries: Mapping[str, _Entry], body_bytes: int) -> None:
    """Raise unless each tensor begins where the one before ended: no overlaps and no bytes that belong to
    none."""
    reached = 0
    for name, (_, _, begin, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin != reached:
            _refuse(path, f"lets {shown(name)} begin at {begin}, and the tensor before it ends at {reached}")
        reached = end
    if reached != body_bytes:
        _refuse(path, f"describes {reached} bytes of tensors and holds {body_bytes}")


def _refuse(path: Path, what: str) -> NoReturn:
    raise DamagedTensorFile(f"{path} {what}")


# Convert PyTorch's tensors, and send JSON between ranks over torch.
# This is the only module of the runtime that knows a framework, which it imports on use.
_TORCH_TYPES: Mapping[str, str] = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I16": "int16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "F32": "float32",
    "I64": "int64",
    "F64": "float64",
}


def encode_tensor(name: str, tensor: Any) -> TensorData:
    """Return a tensor as bytes; `name` is for messages. A contiguous one of the CPU is not copied."""
    torch = importlib.import_module("torch")
    dtype = next(
        (code for code, known in _TORCH_TYPES.items() if getattr(torch, known) is tensor.dtype), None
    )
    if dtype is None:
        raise Refusal(f"tensor {shown(name)} has the dtype {tensor.dtype}, which cannot be stored")
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    data = memoryview(flat.view(torch.uint8).numpy()) if flat.numel() else memoryview(b"")
    return TensorData(dtype=dtype, shape=tuple(tensor.shape), data=data)


def torch_type(code: str) -> Any:
    """Return PyTorch's type for a safetensors type; raise Refusal if there is none."""
    if code not in _TORCH_TYPES:
        raise Refusal(f"PyTorch has no {code} tensors to read into")
    return getattr(importlib.import_module("torch"), _TORCH_TYPES[code])


def stored_type(name: str) -> str | None:
    """Return the safetensors type for PyTorch's type of this name; None if it cannot be stored."""
    return next((code for code, known in _TORCH_TYPES.items() if known == name), None)


def torch_collective(group: Any = None) -> Collective:
    """Send JSON through a process group (torch's own gather of objects would unpickle what peers send).

    Its timeout is the group's: give init_process_group the contract's `collective_seconds`.
    """
    distributed = importlib.import_module("torch.distributed")
    if not distributed.is_available() or not distributed.is_initialized():
        return Collective(rank=0, world=1, gather=lambda value: [value])
    return Collective(
        rank=distributed.get_rank(group),
        world=distributed.get_world_size(group),
        gather=lambda value: _gather(distributed, group, value),
    )


def _gather(distributed: Any, group: Any, value: Json) -> list[Json]:
    torch = importlib.import_module("torch")
    # On the accelerator for its own backend, in memory for gloo and MPI.
    kinds = {"nccl": "cuda", "hccl": "hpu", "xla": "xla", "neuron": "xla"}
    backend = str(distributed.get_backend(group))
    device = torch.device(next((kind for name, kind in kinds.items() if name in backend), "cpu"))
    world = distributed.get_world_size(group)
    encoded = json.dumps(value).encode()
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(world)]
    distributed.all_gather(sizes, torch.tensor([len(encoded)], dtype=torch.int64, device=device), group=group)
    widest = max(int(size.item()) for size in sizes)
    own = torch.frombuffer(bytearray(encoded.ljust(widest)), dtype=torch.uint8).to(device)
    parts = [torch.empty(widest, dtype=torch.uint8, device=device) for _ in range(world)]
    distributed.all_gather(parts, own, group=group)
    return [json.loads(bytes(part.cpu().numpy())) for part in parts]  # JSON does not mind the padding
