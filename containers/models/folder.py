"""Write a model as a folder in Hugging Face's format, tensor by tensor; read a folder's WordPiece vocabulary.

The place of each tensor in the files follows from the model's sizes alone, so the model is never held whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from slipway.containers.data.sources.sources import read_whole
from slipway.containers.data.tokens.engine import Vocabulary, parse_vocabulary
from slipway.containers.models.names import (
    Shape,
    Sizes,
    full_name,
    published_names,
    published_sizes,
    row_runs,
)
from slipway.containers.models.published import CONFIG, TOKENIZER, VOCABULARY, ModelFolder, read_object
from slipway.containers.models.slices import INDEX, WEIGHTS
from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint.tensor_file import encode_tensor
from slipway.containers.runtime.errors import Refusal

FOLDER = "model"
MOST_SHARD_BYTES = 5_000_000_000  # the limit of transformers before version 5
_LENGTH_BYTES = 8
_ITEM_BYTES = 4  # fp32, the type of the weights in training


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """Say which tensors one file holds, and at which bytes."""

    name: str
    header: bytes
    begins: Mapping[str, int]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """Decide the names and files in which a model's parameters are published."""

    shape: Shape
    sizes: Mapping[str, Sizes]  # of our parameters
    most_shard_bytes: int = MOST_SHARD_BYTES

    def shards(self) -> list[ShardPlan]:
        published = {
            name: published_sizes(self.shape, parameter, sizes)
            for parameter, sizes in self.sizes.items()
            for name in published_names(self.shape.family, parameter)
        }
        groups = list(_grouped(published, self.most_shard_bytes))
        names = [f"model-{at + 1:05}-of-{len(groups):05}.safetensors" for at in range(len(groups))]
        names = [WEIGHTS] if len(groups) == 1 else names
        family = self.shape.family
        return [
            _shard(name, {full_name(family, each): published[each] for each in group})
            for name, group in zip(names, groups, strict=True)
        ]


def write_model(
    beside: Path, plan: ModelPlan, read: Callable[[str], Tensor], files: Mapping[str, bytes]
) -> Path:
    """Write the folder `model` in `beside`: `read` returns each parameter, and `files` are added."""
    shards = plan.shards()
    with disk.new_folder(beside / FOLDER) as folder:
        folder.mkdir(parents=True)
        _fill(folder, plan, shards, read)
        if len(shards) > 1:
            total = sum(shard.size - len(shard.header) for shard in shards)
            weight_map = {name: shard.name for shard in shards for name in shard.begins}
            index = json_bytes({"metadata": {"total_size": total}, "weight_map": weight_map})
            files = {**files, INDEX: index}
        for name, content in files.items():
            disk.write_new(folder / name, [content])
    return beside / FOLDER


def described(config: Mapping[str, object], carried: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files beside the weights: config.json, and those of the tokenizer."""
    return {**carried, CONFIG: json_bytes(config)}


def json_bytes(content: Mapping[str, object]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


def _grouped(published: Mapping[str, Sizes], most_bytes: int) -> Iterator[list[str]]:
    group: list[str] = []
    held = 0
    for name, sizes in published.items():
        size = _bytes_of(sizes)
        if group and held + size > most_bytes:
            yield group
            group, held = [], 0
        group.append(name)
        held += size
    yield group


def _shard(name: str, tensors: Mapping[str, Sizes]) -> ShardPlan:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}  # older transformers refuse a file without
    begins: dict[str, int] = {}
    at = 0
    for tensor, sizes in tensors.items():
        begins[tensor], end = at, at + _bytes_of(sizes)
        header[tensor] = {"dtype": "F32", "shape": list(sizes), "data_offsets": [at, end]}
        at = end
    encoded = json.dumps(header, separators=(",", ":")).encode()
    padded = encoded + b" " * (-len(encoded) % _LENGTH_BYTES)
    head = len(padded).to_bytes(_LENGTH_BYTES, "little") + padded
    return ShardPlan(name, head, {each: len(head) + begin for each, begin in begins.items()}, len(head) + at)


def _fill(folder: Path, plan: ModelPlan, shards: list[ShardPlan], read: Callable[[str], Tensor]) -> None:
    files = {name: shard for shard in shards for name in shard.begins}
    for shard in shards:
        disk.write_new(folder / shard.name, [shard.header])
    descriptors = {shard.name: os.open(folder / shard.name, os.O_WRONLY | os.O_CLOEXEC) for shard in shards}
    try:
        for shard in shards:
            os.truncate(descriptors[shard.name], shard.size)
        for parameter, sizes in plan.sizes.items():
            row_bytes, tensor = _bytes_of(sizes[1:]), read(parameter)
            for run in row_runs(plan.shape, parameter, sizes, 0, sizes[0]):
                name = full_name(plan.shape.family, run.name)
                place = files[name].begins[name] + run.begin * row_bytes
                _write_at(descriptors[files[name].name], place, tensor[run.at : run.at + run.rows])
        for descriptor in descriptors.values():
            os.fsync(descriptor)
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)


def _write_at(descriptor: int, place: int, rows: Tensor) -> None:
    data = encode_tensor("rows", rows.to(torch.float32)).data
    while data:
        written = os.pwrite(descriptor, data[: disk.CHUNK_BYTES], place)
        data, place = data[written:], place + written


def _bytes_of(sizes: Sizes) -> int:
    total = _ITEM_BYTES
    for side in sizes:
        total *= side
    return total


# The WordPiece vocabulary of a model folder: its entries, and whether it is cased.
MOST_UNUSED_ENTRIES = 128  # rows of an embedding without an entry: some models round their vocabulary up


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVocabulary:
    vocabulary: Vocabulary
    is_cased: bool

    def files(self) -> dict[str, bytes]:
        """Return the files from which transformers makes the same tokenizer."""
        settings: Mapping[str, object] = {
            "do_lower_case": not self.is_cased,
            "tokenizer_class": "BertTokenizer",
        }
        lines = "".join(f"{entry}\n" for entry in self.vocabulary.entries)
        return {VOCABULARY: lines.encode(), TOKENIZER: json_bytes(settings)}


def read_model_vocabulary(folder: ModelFolder) -> ModelVocabulary:
    """Read vocab.txt, and from tokenizer_config.json whether it is cased."""
    names = {file.name for file in folder.source.files}
    if VOCABULARY not in names:
        raise Refusal(
            f"{folder.place} has no {VOCABULARY}", hint="give a whole model directory, as a hub has it"
        )
    name = f"{folder.place}/{VOCABULARY}"
    vocabulary = parse_vocabulary(name, read_whole(folder.source, VOCABULARY))
    entries, known = len(vocabulary.entries), folder.shape.vocabulary
    if not 0 <= known - entries < MOST_UNUSED_ENTRIES:
        raise Refusal(
            f"{name} has {entries} entries, but the model knows {known}",
            hint="give the vocabulary that belongs to the model",
        )
    # If tokenizer_config.json does not say it, capitals do: only a cased vocabulary has them.
    is_cased = any(entry != entry.lower() for entry in vocabulary.entries if not entry.startswith("["))
    if TOKENIZER in names:
        told = read_object(f"{folder.place}/{TOKENIZER}", read_whole(folder.source, TOKENIZER))
        if isinstance(said := told.get("do_lower_case"), bool):
            is_cased = not said
    return ModelVocabulary(vocabulary=vocabulary, is_cased=is_cased)
