"""Read slices of safetensors files, local or in S3: a rank reads only the rows that it needs.

A folder has one file, or several that model.safetensors.index.json lists. Nothing in them can run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor

from slipway.containers.data.sources.sources import Source, at_once, read_whole
from slipway.containers.runtime.checkpoint.tensor_file import TensorEntry, decode_entries, torch_type
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
BLOCK_BYTES = 16 << 20  # memory for one block, beside the target
SAMPLE_BYTES = 4096
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Locate a tensor: its file, and its entry there."""

    file: str
    entry: TensorEntry


@dataclass(frozen=True, slots=True)
class TensorSlices:
    """Read rows of the tensors of a model folder."""

    place: str  # for messages
    source: Source
    tensors: Mapping[str, TensorPlace]

    @classmethod
    def open(cls, place: str, source: Source) -> TensorSlices:
        """Read the list of tensors, without their contents."""
        sizes = {file.name: file.size_bytes for file in source.files}
        wanted = _files_of_tensors(place, source, sizes)
        found: dict[str, TensorPlace] = {}
        for file in sorted(set(wanted.values())) if wanted else [WEIGHTS]:
            entries = decode_entries(
                Path(f"{place}/{file}"), sizes[file], lambda *at, f=file: source.read(f, *at)
            )
            found |= {name: TensorPlace(file, entry) for name, entry in entries.items()}
            for name, shard in wanted.items():
                if shard == file and name not in entries:
                    _refuse(
                        place, f"has no tensor {shown(name)} in {file}, and {INDEX} says that it is there"
                    )
        return cls(place, source, found)

    def fingerprint(self) -> str:
        """Return a digest of all names, shapes and the first bytes of each tensor, without reading all."""
        running = hashlib.sha256()
        for name, place in sorted(self.tensors.items()):
            entry = place.entry
            length = min(SAMPLE_BYTES, entry.end - entry.begin)
            running.update(f"{name} {entry.dtype} {entry.shape}".encode())
            running.update(self.source.read(place.file, entry.begin, length))
        return running.hexdigest()

    def read_rows(self, name: str, begin: int, target: Tensor, column: int = 0) -> None:
        """Fill `target` with rows of a tensor from row `begin` on, each from `column` on.

        Rows are read whole, some megabytes at a time.
        """
        place = self.tensors[name]
        entry, end = place.entry, begin + target.shape[0]
        row_bytes = (entry.end - entry.begin) // entry.shape[0]
        step = max(1, BLOCK_BYTES // max(1, row_bytes))
        blocks = ((first, min(step, end - first)) for first in range(begin, end, step))

        def read(block: tuple[int, int]) -> None:
            first, count = block
            content = self.source.read(place.file, entry.begin + first * row_bytes, count * row_bytes)
            flat = torch.frombuffer(bytearray(content), dtype=torch_type(entry.dtype))
            rows = flat.view(count, *entry.shape[1:])
            if target.ndim > 1:
                rows = rows.narrow(1, column, target.shape[1])
            target[first - begin : first - begin + count].copy_(rows)

        with torch.no_grad():
            at_once(self.source, read, blocks)


def _files_of_tensors(place: str, source: Source, sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the file of each tensor by the index; {} if one file holds all."""
    if WEIGHTS in sizes:
        return {}
    if INDEX not in sizes:
        if pickles := sorted(name for name in sizes if name.endswith(_PICKLES)):
            raise Refusal(
                f"{place} has {pickles[0]}, a pickle: to read it would run code in it",
                hint=f"if you trust it, convert it to {WEIGHTS} with save_pretrained of transformers",
            )
        _refuse(place, f"has no {WEIGHTS}")
    try:
        weight_map = json.loads(read_whole(source, INDEX))["weight_map"]
        wanted = {str(name): str(file) for name, file in weight_map.items()}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        _refuse(place, f"has an {INDEX} that is not an object with a weight_map")
    missing = sorted(set(wanted.values()) - sizes.keys())
    if missing or not wanted:
        told = ", ".join(map(shown, missing[:3])) or "no file at all"
        _refuse(
            place, f"lacks {len(missing)} of {len(set(wanted.values()))} shards that {INDEX} names: {told}"
        )
    return wanted


def _refuse(place: str, what: str) -> NoReturn:
    raise Refusal(f"{place} {what}", hint="give a whole model directory, as a hub has it")
