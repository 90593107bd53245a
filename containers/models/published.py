"""Read a model folder in Hugging Face's format: its shape, its weights by our names, its tokenizer's files.

The folder is local or in S3. Nothing is fetched from a hub, and nothing in a folder is run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from slipway.containers.data.sources.locations import is_remote, open_source, public
from slipway.containers.data.sources.sources import Source, read_whole
from slipway.containers.models.configs import Config, shape_of_config
from slipway.containers.models.decoder import Decoder
from slipway.containers.models.distributed_slices import METADATA, SUFFIX, DistributedSlices
from slipway.containers.models.names import (
    RowRun,
    Shape,
    plain_name,
    published_names,
    published_sizes,
    row_runs,
)
from slipway.containers.models.slices import TensorSlices
from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.named_files import read_bytes

CONFIG, VOCABULARY, TOKENIZER = "config.json", "vocab.txt", "tokenizer_config.json"
# Files of the tokenizer and for generation, which are copied unchanged.
CARRIED = (
    VOCABULARY,
    TOKENIZER,
    "tokenizer.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "generation_config.json",
)
_MOST_CONFIG_BYTES = 1 << 20
_MOST_READ = 1.5  # read at most this many times the wanted bytes, to save reads


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    place: str  # for messages
    source: Source
    config: Config
    shape: Shape
    # The content of .metadata, if torch.distributed.checkpoint saved the weights.
    distributed: bytes | None = None

    def weights(self) -> PublishedWeights:
        if self.distributed is None:
            slices = TensorSlices.open(self.place, self.source)
        else:
            slices = DistributedSlices.decode(self.place, self.source, self.distributed)
        return PublishedWeights(self.place, self.shape, slices)

    def carried(self) -> dict[str, bytes]:
        """Return the files to copy that the folder has."""
        names = {file.name for file in self.source.files}
        return {name: read_whole(self.source, name) for name in CARRIED if name in names}


def open_model(place: str, *, bucket_owner: str | None = None) -> ModelFolder:
    """Open a folder and read its config.json."""
    if not is_remote(place) and not Path(place).is_dir():
        raise Refusal(
            f"there is no model directory {place}",
            hint=f"nothing is fetched from a hub: put {CONFIG} and the model's other files there, or give "
            "s3://bucket/prefix",
        )
    source, told = open_source(place, bucket_owner=bucket_owner), public(place)
    names = {file.name for file in source.files}
    if CONFIG not in names:
        raise Refusal(f"{told} has no {CONFIG}", hint="give a whole model directory, as a hub has it")
    config = read_object(f"{told}/{CONFIG}", read_whole(source, CONFIG))
    shape = shape_of_config(f"{told}/{CONFIG}", config)
    distributed = None
    if any(name.endswith(SUFFIX) for name in names):
        # Sources leave out names that begin with a dot, such as .metadata.
        distributed = read_whole(open_source(place, (METADATA,), bucket_owner), METADATA)
    return ModelFolder(place=told, source=source, config=config, shape=shape, distributed=distributed)


def read_shape(path: Path) -> tuple[Shape, str]:
    """Read the shape from a config.json, given as a file or its folder; return it and the file's path."""
    path = path / CONFIG if path.is_dir() else path
    config = read_object(str(path), read_bytes(path, _MOST_CONFIG_BYTES))
    return shape_of_config(str(path), config), str(path)


def read_object(name: str, content: bytes) -> Config:
    """Decode a JSON object; `name` is its path or address, for messages."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Refusal(f"{name} is not a JSON object", hint="give the model's own")
    return found


class PublishedWeights:
    """Read parts of our parameters from published weights."""

    def __init__(self, place: str, shape: Shape, slices: TensorSlices) -> None:
        self.place, self.shape, self._slices = place, shape, slices
        self._theirs = {plain_name(shape.family, name): name for name in slices.tensors}

    def fingerprint(self) -> str:
        return self._slices.fingerprint()

    def read(self, parameter: str, box: Box, sizes: tuple[int, ...]) -> Tensor:
        """Return a box of our parameter in fp32; `sizes` are those of the whole parameter."""
        target = torch.zeros(box.shape)
        self.read_into(target, parameter, box, sizes)
        return target

    def read_into(self, target: Tensor, parameter: str, box: Box, sizes: tuple[int, ...]) -> None:
        """Fill `target` with a box of our parameter; leave rows that pad the vocabulary unchanged."""
        begin, column = box.offsets[0], sum(box.offsets[1:])
        runs: dict[str, list[RowRun]] = {}
        for run in row_runs(self.shape, parameter, sizes, begin, begin + box.shape[0]):
            runs.setdefault(self._theirs[run.name], []).append(run)
        for name, own in runs.items():
            # One read for all, if that reads little else: alternating heads are many runs.
            first, last = min(run.begin for run in own), max(run.begin + run.rows for run in own)
            is_close = last - first <= _MOST_READ * sum(run.rows for run in own)
            for some in [own] if is_close else [[run] for run in own]:
                self._read_together(name, some, target, begin, column)

    def _read_together(self, name: str, runs: list[RowRun], target: Tensor, begin: int, column: int) -> None:
        targets = [target[run.at - begin : run.at - begin + run.rows] for run in runs]
        if len(runs) == 1:
            self._slices.read_rows(name, runs[0].begin, targets[0], column)
            return
        first = min(run.begin for run in runs)
        last = max(run.begin + run.rows for run in runs)
        together = torch.empty(last - first, *target.shape[1:])
        self._slices.read_rows(name, first, together, column)
        for run, rows in zip(runs, targets, strict=True):
            rows.copy_(together[run.begin - first : run.begin - first + run.rows])

    def problem(self, parameter: str, sizes: tuple[int, ...]) -> str | None:
        """Return why our parameter of these sizes cannot be read, or None."""
        wanted = published_sizes(self.shape, parameter, sizes)
        for name in published_names(self.shape.family, parameter):
            if name not in self._theirs:
                return f"has no tensor {name}"
            entry = self._slices.tensors[self._theirs[name]].entry
            if entry.shape != wanted:
                return f"has {name} of shape {entry.shape}, but config.json says {wanted}"
            if not entry.dtype.startswith(("F", "BF")):
                return f"has {name} as {entry.dtype}"
        return None


def load_weights(
    model: nn.Module, weights: PublishedWeights, may_be_fresh: tuple[str, ...] = ()
) -> list[str]:
    """Read the weights into a model in memory; return its modules that stay as drawn.

    These are modules of `may_be_fresh` that the weights lack; refuse weights that lack any other.
    """
    sizes: Mapping[str, tuple[int, ...]] = {
        name: tuple(parameter.shape) for name, parameter in model.named_parameters()
    }
    problems = {name: weights.problem(name, each) for name, each in sizes.items()}
    fresh = {name.partition(".")[0] for name, problem in problems.items() if problem}
    for name, problem in problems.items():
        if problem and name.partition(".")[0] not in may_be_fresh:
            raise Refusal(f"{weights.place} {problem}", hint="give weights and config.json of one model")
    for name, parameter in model.named_parameters():
        if name.partition(".")[0] not in fresh:
            weights.read_into(parameter.detach(), name, Box.whole(sizes[name]), sizes[name])
    return sorted(fresh)


class PublishedDecoder(Decoder):
    """Begin with published weights instead of drawn ones; each rank reads only its own boxes."""

    published: PublishedWeights

    def published_part(self, name: str, size: torch.Size, box: Box) -> Tensor:
        """Read a box of one parameter."""
        return self.published.read(name, box, tuple(size))


def refuse_missing(model: nn.Module, published: PublishedWeights) -> None:
    """Raise Refusal if the folder lacks a parameter of the model, or has it in another shape."""
    for name, parameter in model.named_parameters():
        if problem := published.problem(name, tuple(parameter.shape)):
            raise Refusal(f"{published.place} {problem}", hint="give weights and config.json of one model")
