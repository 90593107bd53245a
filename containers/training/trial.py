"""Small models of the same family, for the self-check before a training; each recipe has its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from slipway.containers.models.decoder import Decoder, DecoderShape
from slipway.containers.models.shapes import EncoderShape
from slipway.containers.training.layout import Layout
from slipway.containers.training.task import Inputs, NextTokenTask, Task

ROWS, LENGTH = 2, 8
_HEAD_WIDTH = 8

Shape = TypeVar("Shape", DecoderShape, EncoderShape)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutTrial:
    """Hold a small model and its inputs."""

    build: Callable[[], nn.Module]  # the same weights at each call
    task: Task
    inputs: Callable[[int], Inputs]  # of a micro-batch by its number, on the processor


def small_shape(shape: Shape, layout: Layout, stages_per_rank: int = 1) -> Shape:
    """Return a small shape of the same family, without dropout, that the layout can just cut."""
    heads, tensor = 2 * layout.tensor, layout.tensor
    wanted: dict[str, Any] = {
        "layers": max(2, layout.pipeline * stages_per_rank),
        "heads": heads,
        "hidden": heads * _HEAD_WIDTH,
        "intermediate": 2 * heads * _HEAD_WIDTH,
        # Cut by tensor ranks if the model's is, whole if that is, and uneven for two that share it out.
        "vocabulary": 17 * tensor + shape.vocabulary % tensor,
        "vocabulary_rows": None,
        "positions": LENGTH,
        "rotary_dimensions": _HEAD_WIDTH // 2,
        "initial_spread": 0.1,
        "dropout": 0.0,
        "attention_dropout": 0.0,
    }
    known = {field.name for field in fields(shape)}
    return replace(shape, **{name: value for name, value in wanted.items() if name in known})


def drawn(number: int, high: int, *sizes: int) -> Tensor:
    """Return whole numbers from 1 to below `high`, which follow from the number alone."""
    return torch.randint(1, high, sizes, generator=torch.Generator().manual_seed(number))


def decoder_trial(shape: DecoderShape) -> LayoutTrial:
    """Return how a small decoder learns the next token, in rows that tensor ranks can share."""
    length = LENGTH * shape.heads // 2

    def build() -> Decoder:
        with torch.device("meta"):
            return Decoder(shape)

    def inputs(number: int) -> Inputs:
        words = drawn(number, shape.vocabulary, ROWS, length + 1)
        return {"words": words[:, :-1], "labels": words[:, 1:].contiguous()}

    return LayoutTrial(build=build, task=NextTokenTask(), inputs=inputs)
