"""Plain data parallel, as the loop asks for it."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from slipway.containers.models.heads import Losses
from slipway.containers.recipes.bert_pretrain.engine import EngineParts
from slipway.containers.training.data_parallel import DataParallel


class TorchEngine(DataParallel):
    def __init__(self, parts: EngineParts) -> None:
        super().__init__(parts)
        self._model = parts.model

    def losses(self, inputs: Mapping[str, Tensor | None]) -> Losses:
        found: Losses = self._model(**inputs)
        return found


def build(parts: EngineParts) -> TorchEngine:
    return TorchEngine(parts)
