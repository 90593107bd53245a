"""What a checkpoint holds, whatever the number of ranks: flat fp32 pieces of whole tensors.

A piece is `kind/parameter/start`: the elements of one parameter's weights or moments from `start` on. Each
rank saves the pieces it owns; whoever resumes takes from all of them what it needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from slipway.containers.runtime.checkpoint.resume import Resumed
from slipway.containers.runtime.checkpoint.tensor_file import TensorData
from slipway.containers.runtime.checkpoint.tensors import from_torch, to_torch
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

WEIGHTS = "weights"
MOMENTS = ("exp_avg", "exp_avg_sq")
KINDS = (WEIGHTS, *MOMENTS)


class ForeignTensors(Refusal):
    """The checkpoint is sound, but its tensors are not those of this model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorPiece:
    kind: str
    parameter: str
    start: int
    data: Tensor  # flat, fp32

    @property
    def end(self) -> int:
        return self.start + self.data.numel()

    def copy_to(self, target: Tensor, start: int) -> None:
        """Copy what both have of the parameter; `target` is flat and begins at its element `start`."""
        low, high = max(self.start, start), min(self.end, start + target.numel())
        if low < high:
            target[low - start : high - start].copy_(self.data[low - self.start : high - self.start])


def encode(pieces: Iterable[TensorPiece]) -> dict[str, TensorData]:
    return from_torch({f"{piece.kind}/{piece.parameter}/{piece.start}": piece.data for piece in pieces})


def load_weights(model: torch.nn.Module, piece: TensorPiece) -> None:
    """Load a piece in the model's own precision; the engine's copy in fp32 is loaded separately."""
    parameter = model.get_parameter(piece.parameter)
    piece.copy_to(parameter.detach().view(-1), 0)


def read_pieces(found: Resumed, sizes: Mapping[str, int]) -> Iterator[TensorPiece]:
    """Yield every element of every kind exactly once, with one rank's file in memory at a time."""
    seen: dict[tuple[str, str], int] = defaultdict(int)
    for rank in range(found.manifest.world):
        for name, data in to_torch(found.tensors(rank)).items():
            piece = _decode(found, name, data, sizes)
            seen[piece.kind, piece.parameter] += piece.data.numel()
            yield piece
    for kind in KINDS:
        for parameter, size in sizes.items():
            if seen[kind, parameter] != size:
                _refuse(found, f"holds {seen[kind, parameter]} of {size} elements of {kind}/{parameter}")


def _decode(found: Resumed, name: str, data: Tensor, sizes: Mapping[str, int]) -> TensorPiece:
    kind, _, rest = name.partition("/")
    parameter, _, start = rest.rpartition("/")
    if kind not in KINDS or parameter not in sizes or not start.isdecimal() or not start.isascii():
        _refuse(found, f"holds {shown(name)}, which this model does not have")
    piece = TensorPiece(kind=kind, parameter=parameter, start=int(start), data=data)
    if data.dtype is not torch.float32 or data.ndim != 1 or piece.end > sizes[parameter]:
        _refuse(found, f"holds {shown(name)} as {data.dtype} of shape {tuple(data.shape)}")
    return piece


def _refuse(found: Resumed, what: str) -> NoReturn:
    raise ForeignTensors(f"{found.folder} {what}", hint="resume with the model and recipe that saved it")
