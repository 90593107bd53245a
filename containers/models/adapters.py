"""Low-rank adapters (LoRA, Hu et al. 2021) of a decoder's queries and values; all other weights are frozen.

Each adds up(down(x)) × alpha / rank to the output of the frozen matrix. `up` begins at zero, so training
begins with the model unchanged. Tensor ranks share `up` by heads, like the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from slipway.containers.models.decoder import Decoder, DecoderAttention, DecoderShape
from slipway.containers.models.published import PublishedWeights
from slipway.containers.runtime.checkpoint.boxes import Box

# Our adapters: the published matrix that each adapts, and which third of a head's rows in ours that is.
ADAPTED: Mapping[str, tuple[str, int]] = {"query": ("q_proj", 0), "value": ("v_proj", 2)}
_PARTS = 3
_FUSED = "attention.query_key_value.weight"


class AdaptedAttention(DecoderAttention):
    def __init__(self, shape: DecoderShape, rank: int, alpha: float) -> None:
        super().__init__(shape)
        self.scale = alpha / rank
        for name in ADAPTED:
            self.add_module(f"{name}_down", nn.Linear(shape.hidden, rank, bias=False))
            self.add_module(f"{name}_up", nn.Linear(rank, shape.hidden, bias=False))

    def project(self, hidden: Tensor) -> Tensor:
        parts = list(super().project(hidden).unbind(3))
        for name, (_, part) in ADAPTED.items():
            down, up = self.get_submodule(f"{name}_down"), self.get_submodule(f"{name}_up")
            parts[part] = parts[part] + up(down(hidden)).unflatten(-1, (-1, self.width)) * self.scale
        return torch.stack(parts, dim=3)


class AdaptedDecoder(Decoder):
    """Train only adapters; all other weights stay as published, or as the seed draws them."""

    tensor_plan: ClassVar[Mapping[str, str]] = {
        **Decoder.tensor_plan,
        **{f"layers.*.attention.{name}_up": "columns" for name in ADAPTED},
    }

    def __init__(
        self,
        shape: DecoderShape,
        *,
        rank: int,
        alpha: float,
        seed: int,
        published: PublishedWeights | None = None,
    ) -> None:
        super().__init__(shape)
        self.rank, self.alpha, self.seed, self.published = rank, alpha, seed, published
        for layer in self.layers:
            layer.attention = AdaptedAttention(shape, rank, alpha)
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(is_adapter(name))

    def published_part(self, name: str, size: torch.Size, box: Box) -> Tensor:
        """Return a box of a parameter as training begins with it."""
        if self.published is None or is_adapter(name):
            return self.initial_weights(name, size, self.seed)[box.slices]
        return self.published.read(name, box, tuple(size))

    def initial_weights(self, name: str, size: torch.Size, seed: int) -> Tensor:
        if name.endswith("_up.weight"):
            return torch.zeros(size)
        drawn = super().initial_weights(name, size, seed)
        if is_adapter(name):  # with the spread of Kaiming's uniform numbers, which peft draws
            drawn *= 1 / (math.sqrt(3 * size[1]) * self.shape.initial_spread)
        return drawn


def is_adapter(parameter: str) -> bool:
    return parameter.endswith(("_down.weight", "_up.weight"))


def adapters_of(parameter: str) -> dict[str, tuple[str, str]]:
    """Return the names of the down and up matrices that adapt a parameter, by adapter; {} if none do."""
    if not parameter.endswith(_FUSED):
        return {}
    attention = parameter.removesuffix("query_key_value.weight")
    return {name: (f"{attention}{name}_down.weight", f"{attention}{name}_up.weight") for name in ADAPTED}


def merged(
    whole: Tensor, shape: DecoderShape, scale: float, pairs: Mapping[str, tuple[Tensor, Tensor]]
) -> Tensor:
    """Return queries, keys and values with adapters added, each a pair of a down and an up matrix."""
    heads = whole.clone().view(shape.heads, _PARTS, shape.head_width, shape.hidden)
    for name, (down, up) in pairs.items():
        heads[:, ADAPTED[name][1]] += scale * (up @ down).view(shape.heads, shape.head_width, shape.hidden)
    return heads.view_as(whole)


def peft_names(parameter: str) -> Iterator[str]:
    """Yield peft's name for a matrix of our adapters in GPT-J; nothing for any other parameter."""
    if is_adapter(parameter):
        _, layer, _, module, _ = parameter.split(".")
        name, _, kind = module.rpartition("_")
        which = "lora_A" if kind == "down" else "lora_B"
        yield f"base_model.model.transformer.h.{layer}.attn.{ADAPTED[name][0]}.{which}.weight"
