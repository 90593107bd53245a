"""Low-rank adapters (LoRA, Hu et al. 2021) of a decoder's queries and values: what is trained in place of it.

Each adds up(down(x)) × alpha / rank to what the frozen matrix returns. `up` begins at zero, so that training
begins with the model as it was; it is cut between tensor ranks by heads, as the matrix is.
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

# Our adapters, and the published matrices that they adapt: the third of each head's rows that is theirs.
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
    """Train adapters alone; all else stays as it was published, or as the seed draws it."""

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
        """Return a box of what training begins with."""
        if self.published is None or is_adapter(name):
            return self.initial_weights(name, size, self.seed)[box.slices]
        return self.published.read(name, box, tuple(size))

    def initial_weights(self, name: str, size: torch.Size, seed: int) -> Tensor:
        if name.endswith("_up.weight"):
            return torch.zeros(size)
        drawn = super().initial_weights(name, size, seed)
        if is_adapter(name):  # as peft draws them: Kaiming's uniform spread, here of normal numbers
            drawn *= 1 / (math.sqrt(3 * size[1]) * self.shape.initial_spread)
        return drawn


def is_adapter(parameter: str) -> bool:
    return parameter.endswith(("_down.weight", "_up.weight"))


def adapters_of(parameter: str) -> dict[str, tuple[str, str]]:
    """Return the parameters that adapt one of ours, as down and up, by which of it they adapt."""
    if not parameter.endswith(_FUSED):
        return {}
    attention = parameter.removesuffix("query_key_value.weight")
    return {name: (f"{attention}{name}_down.weight", f"{attention}{name}_up.weight") for name in ADAPTED}


def merged(
    whole: Tensor, shape: DecoderShape, scale: float, pairs: Mapping[str, tuple[Tensor, Tensor]]
) -> Tensor:
    """Return queries, keys and values with what adapters, each a down and an up, add to them."""
    heads = whole.clone().view(shape.heads, _PARTS, shape.head_width, shape.hidden)
    for name, (down, up) in pairs.items():
        heads[:, ADAPTED[name][1]] += scale * (up @ down).view(shape.heads, shape.head_width, shape.hidden)
    return heads.view_as(whole)


def peft_names(parameter: str) -> Iterator[str]:
    """Yield the name that peft gives one of our adapters' matrices in GPT-J; nothing for all else."""
    if is_adapter(parameter):
        _, layer, _, module, _ = parameter.split(".")
        name, _, kind = module.rpartition("_")
        which = "lora_A" if kind == "down" else "lora_B"
        yield f"base_model.model.transformer.h.{layer}.attn.{ADAPTED[name][0]}.{which}.weight"
