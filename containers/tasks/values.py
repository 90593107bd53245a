"""Encode arguments and results of a user's function without pickle: as JSON, with tensors beside it.

One safetensors file holds both. Its tensor `value` is the JSON, as UTF-8; each other tensor is named by its
place in the JSON, such as ["weights", 0]. Standard library only, unless there is a tensor.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway.containers.runtime.checkpoint.tensor_file import (
    DamagedTensorFile,
    TensorData,
    TensorEntry,
    decode_entries,
    encode_header,
    encode_tensor,
    in_file_order,
    torch_type,
)
from slipway.containers.runtime.errors import Refusal

SUFFIX = ".safetensors"
MOST_BYTES = 1 << 30
_VALUE = "value"
_ALLOWED = "None, bool, int, float, str, lists, dictionaries with str for keys, and PyTorch's tensors"

_Place = tuple[int | str, ...]


class NoValue(Refusal):
    """The value cannot be sent."""


def result_key(job: str, rank: int) -> str:
    """Return the key of a rank's result in the bucket."""
    return f"jobs/{job}/results/{rank:05d}{SUFFIX}"


def refuse_value(value: object, what: str) -> None:
    """Refuse a value that cannot be sent."""
    try:
        json.dumps(_plain(value, what, (), {}))
    except RecursionError:
        raise NoValue(f"{what} is nested too deeply, or contains itself", hint="flatten it") from None


def encode_value(value: object, what: str) -> bytes:
    """Return a value as bytes; `what` names it in errors. A tuple becomes a list."""
    refuse_value(value, what)
    tensors: dict[str, TensorData] = {}
    text = json.dumps(_plain(value, what, (), tensors)).encode()
    tensors[_VALUE] = TensorData(dtype="U8", shape=(len(text),), data=memoryview(text))
    ordered = in_file_order(tensors)
    content = b"".join([encode_header(ordered), *(tensor.data for _, tensor in ordered)])
    if len(content) > MOST_BYTES:
        raise NoValue(
            f"{what} has {len(content)} bytes, and at most {MOST_BYTES} travel",
            hint="write it to a file in the cluster's bucket, or in the folder SLIPWAY_CHECKPOINTS",
        )
    return content


def decode_value(content: bytes, where: str) -> object:
    """Return the value; refuse bytes that `encode_value` did not write. `where` names them in errors."""
    held = memoryview(content)
    entries = decode_entries(Path(where), len(held), lambda start, length: held[start : start + length])
    try:
        entry = entries.pop(_VALUE)
        root = [json.loads(bytes(held[entry.begin : entry.end]))]
        for name, tensor in entries.items():
            place: list[Any] = [0, *json.loads(name)]
            holder: Any = root
            for step in place[:-1]:
                holder = holder[step]
            holder[place[-1]] = _tensor(held, tensor, where)
    except (KeyError, IndexError, TypeError, ValueError, RecursionError):
        raise DamagedTensorFile(f"{where} is not what Slipway writes", hint="was it changed?") from None
    return root[0]


def _plain(value: object, what: str, place: _Place, tensors: dict[str, TensorData]) -> object:
    """Return the value with None in place of each tensor, and add the tensors to `tensors`."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(each, what, (*place, number), tensors) for number, each in enumerate(value)]
    if isinstance(value, Mapping):
        if other := next((key for key in value if not isinstance(key, str)), None):
            raise _cannot(other, f"a key of {_words(what, place)}")
        return {key: _plain(each, what, (*place, key), tensors) for key, each in value.items()}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        tensors[json.dumps(place)] = encode_tensor(_words(what, place), value)
        return None
    raise _cannot(value, _words(what, place))


def _words(what: str, place: _Place) -> str:
    return what + "".join(f"[{step!r}]" for step in place)


def _cannot(value: object, words: str) -> NoValue:
    return NoValue(
        f"{words} is of type {type(value).__name__}, which does not travel; {_ALLOWED} do",
        hint="give what it is made from, and make it in the function; or write it to a file",
    )


def _tensor(held: memoryview, entry: TensorEntry, where: str) -> object:
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError:
        raise NoValue(
            f"{where} holds tensors, and PyTorch is not installed here",
            hint="pip install torch, or return lists and numbers: tensor.tolist()",
        ) from None
    dtype = torch_type(entry.dtype)
    if not math.prod(entry.shape):
        return torch.empty(entry.shape, dtype=dtype)
    return torch.frombuffer(bytearray(held[entry.begin : entry.end]), dtype=dtype).reshape(entry.shape)
