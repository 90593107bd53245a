"""Dropout that is the same however a model is cut: seeded by micro-batch, layer and place in the layer.

Stages and layers run in another order in every layout, and so would draw from one stream what others draw
elsewhere. Within attention each tensor rank has heads of its own and draws for these alone: only there does
dropout differ from one process, and only with `tensor` above 1.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from slipway.containers.training.engines.native.tensor_parallel import planned
from slipway.containers.training.numbers import mixed


class Draws:
    def __init__(self, seed: Callable[[int], None], tensor_rank: int) -> None:
        self._seed = seed
        self._tensor_rank = tensor_rank
        self._layer_seed, self._place = 0, 0
        self.micro_batch = 0  # its own seed

    def begin(self, micro_batch: int, part: int) -> None:
        """Begin a part of the model: 0 is what comes before the layers, 1 the first layer, and so on."""
        self._layer_seed, self._place = mixed(micro_batch, part), 0
        self._seed(self._layer_seed)

    def watch(self, model: nn.Module) -> None:
        """Seed anew where a layer's heads begin, and where they end, cut or not."""
        for _, module, word in planned(model):
            if word.startswith("columns"):
                module.register_forward_hook(lambda *_: self._next(self._tensor_rank))
            elif word == "rows":
                module.register_forward_pre_hook(lambda *_: self._next(0))

    def _next(self, rank: int) -> None:
        self._place += 1
        self._seed(mixed(mixed(self._layer_seed, self._place), rank))
