"""What the loop asks of whoever spreads one model over ranks: two answers, plain data parallel and DeepSpeed.

Another would be a module with a `build` like theirs, and one entry of ENGINES.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from slipway.containers.models.heads import BertForPreTraining, Losses
from slipway.containers.recipes.bert_pretrain.config import BertConfig
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.batch import BatchPlan
from slipway.containers.training.devices import Device
from slipway.containers.training.state import TensorPiece


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    config: BertConfig
    model: BertForPreTraining  # on the device, in its precision
    device: Device
    plan: BatchPlan
    rank: int


class Engine(Protocol):
    def losses(self, inputs: Mapping[str, Tensor | None]) -> Losses: ...

    def backward(self, loss: Tensor, *, is_last: bool) -> None:
        """Run backward for each micro-batch of a step, in order."""

    def step(self, rate: float) -> float:
        """Update the weights; return the gradient norm before clipping. If it is not finite, `torch`
        leaves the weights alone."""

    def pieces(self) -> list[TensorPiece]:
        """Return what this rank saves. All ranks' pieces together are the training, exactly once."""

    def restore(self, pieces: Iterable[TensorPiece], steps: int) -> None:
        """Load all ranks' pieces, saved after `steps` by any number of ranks and either engine."""

    def start_from(self, pieces: Iterable[TensorPiece]) -> None:
        """Load only the weights of another training's pieces."""


ENGINES: Mapping[str, str] = {
    "torch": "slipway.containers.recipes.bert_pretrain.engine_torch",
    "deepspeed": "slipway.containers.recipes.bert_pretrain.engine_deepspeed",
}


def engine_name(config: BertConfig) -> str:
    if config.engine != "auto":
        return config.engine
    return "deepspeed" if config.zero else "torch"


def build_engine(parts: EngineParts) -> Engine:
    name = engine_name(parts.config)
    try:
        module = importlib.import_module(ENGINES[name])
    except ImportError as error:
        raise Refusal(
            f"engine {name} needs the package {error.name!r}, which is not installed here",
            hint="install the extra 'deepspeed', or set zero=0 and engine=torch",
        ) from error
    built: Engine = module.build(parts)
    return built
