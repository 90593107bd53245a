"""Runs tiny trainings that any layout can do; returns their losses and what they save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

from slipway.containers.models.decoder import Decoder, DecoderShape
from slipway.containers.models.encoder import BertForPreTraining
from slipway.containers.models.shapes import EncoderShape
from slipway.containers.recipes.bert_pretrain.config import decode
from slipway.containers.recipes.bert_pretrain.model import BertTask
from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints
from slipway.containers.runtime.checkpoint.checkpoints import Training as Identity
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.checkpoint.resume import Resumed, read_manifest
from slipway.containers.runtime.checkpoint.tensor_file import torch_collective
from slipway.containers.training.config import TrainingConfig
from slipway.containers.training.devices import Device
from slipway.containers.training.engine import EngineParts, StepWatch
from slipway.containers.training.engines.native.engine import (
    LayoutEngine,
    NativeSettings,
    build_native,
)
from slipway.containers.training.layout import BatchPlan, Layout
from slipway.containers.training.state import WEIGHTS, SavedState, encode
from slipway.containers.training.task import Inputs, MicroBatch

ROWS, LENGTH, MICRO_BATCHES, WORDS = 2, 8, 4, 62
STEPS = 3
SAVED_AFTER = 2

DECODER = DecoderShape(
    family="neox",
    layers=4,
    hidden=32,
    heads=4,
    intermediate=64,
    vocabulary=WORDS,
    rotary_dimensions=4,
    has_attention_bias=True,
    dropout=0.1,
    initial_spread=0.1,
)
ENCODER = EncoderShape(
    layers=4,
    hidden=32,
    heads=4,
    intermediate=64,
    vocabulary=WORDS,
    positions=16,
    dropout=0.1,
    attention_dropout=0.0,  # tensor ranks draw other dropout within attention than one process
)
CONFIG = decode(
    {
        "optimizer": "adamw",
        "learning_rate": "1e-2",
        "clip_norm": "0.5",  # every step is clipped
        "precision": "fp32",
        "seed": "3",
    }
)
PROCESSOR = Device(
    kind="cpu", place=torch.device("cpu"), precision=torch.float32, backend="gloo", has_fused_adam=True
)


# The other kind is an encoder.
DECODERS: Mapping[str, Mapping[str, Any]] = {
    "decoder": {},
    "tied decoder": {"is_tied": True},
    "undropped decoder": {"dropout": 0.0},
}


class NextWords:
    metrics = ("loss",)

    def forward(self, model: nn.Module, inputs: Inputs) -> Tensor:
        return self.metrics_of(model(inputs["words"]), inputs)

    def run_stage(self, stage: nn.Module, hidden: Tensor | None, inputs: Inputs) -> Tensor:
        return stage(inputs["words"] if hidden is None else hidden)

    def metrics_of(self, outputs: Tensor, inputs: Inputs) -> Tensor:
        words = inputs["words"]
        assert words is not None, "there are always words"
        loss = F.cross_entropy(outputs[:, :-1].flatten(0, 1).float(), words[:, 1:].flatten())
        return torch.stack([loss])


def micro_batches(kind: str, step: int, layout: Layout, rank: int) -> list[MicroBatch]:
    """Return the rows of the rank's reader; all readers together have the same rows in every layout."""
    own = range(MICRO_BATCHES)[layout.reader(rank) :: layout.readers]
    return [
        MicroBatch(
            inputs=_inputs(kind, step, number), seed=step * MICRO_BATCHES + number, weight=1 / len(own)
        )
        for number in own
    ]


def _inputs(kind: str, step: int, number: int) -> Inputs:
    draws = torch.Generator().manual_seed(step * MICRO_BATCHES + number)
    words = torch.randint(1, WORDS, (ROWS, LENGTH), generator=draws)
    if kind in DECODERS:
        return {"words": words}
    return {
        "words": words,
        "segments": (words > WORDS // 2).long(),
        "mask": (torch.arange(LENGTH) < torch.tensor([[LENGTH], [5]])).long(),
        "positions": torch.tensor([[1, 3], [2, 0]]),
        "labels": torch.randint(1, WORDS, (ROWS, 2), generator=draws) * torch.tensor([[1, 1], [1, 0]]),
        "follows": torch.randint(2, (ROWS,), generator=draws),
    }


def build_parts(
    kind: str, layout: Layout, rank: int, *, device: Device = PROCESSOR, config: TrainingConfig = CONFIG
) -> EngineParts:
    torch.manual_seed(config.seed)
    if kind in DECODERS:
        with torch.device("meta"):
            model: nn.Module = Decoder(replace(DECODER, **DECODERS[kind]))
    else:
        model = BertForPreTraining(ENCODER)
    return EngineParts(
        config=config,
        task=NextWords() if kind in DECODERS else BertTask(),
        model=model,
        device=device,
        layout=layout,
        rank=rank,
        plan=BatchPlan(
            micro_batch=ROWS, accumulation_steps=MICRO_BATCHES // layout.readers, readers=layout.readers
        ),
        watch=StepWatch(),
    )


@dataclass(slots=True)
class Training:
    """Train on one rank, step by step."""

    kind: str
    parts: EngineParts
    engine: LayoutEngine

    @classmethod
    def of(
        cls,
        kind: str,
        layout: Layout,
        rank: int,
        settings: NativeSettings | None = None,
        config: TrainingConfig = CONFIG,
    ) -> Training:
        parts = build_parts(kind, layout, rank, config=config)
        return cls(kind, parts, build_native(parts, settings or NativeSettings()))

    @classmethod
    def decoder_on(cls, device: Device, settings: NativeSettings | None = None) -> Training:
        parts = build_parts("decoder", Layout(), 0, device=device)
        return cls("decoder", parts, build_native(parts, settings or NativeSettings()))

    def steps(self, steps: Sequence[int]) -> list[float]:
        """Return each step's loss, gradient norm before clipping, and loss without dropout after it."""
        return [number for step in steps for number in self.step(step)]

    def step(self, step: int) -> list[float]:
        layout, rank = self.parts.layout, self.parts.rank
        batch = micro_batches(self.kind, step, layout, rank)
        loss = self._shared(self.engine.accumulate(batch))
        norm = self.engine.step(1e-2 / (step + 1))
        return [loss, norm, self._shared(self.engine.evaluate(_inputs(self.kind, step, 0)).double())]

    def _shared(self, sums: Tensor) -> float:
        layout = self.parts.layout
        counted = sums if layout.speaks(self.parts.rank) else torch.zeros_like(sums)
        if layout.world > 1:
            distributed.all_reduce(counted)
        return float(counted[0]) / layout.readers


def save(engine: LayoutEngine, folder: Path, step: int) -> None:
    """Save in real files, as a training does; all ranks call it."""
    identity = Identity(job="layouts", run="test", attempt=1)
    storage = CheckpointFolder(folder)
    with Checkpoints(storage, identity, collective=torch_collective(), say=lambda _: None) as checkpoints:
        checkpoints.save(step, encode(engine.pieces()))


def saved_at(folder: Path, step: int) -> SavedState:
    storage = CheckpointFolder(folder)
    found = Resumed(storage=storage, manifest=read_manifest(storage, step), rejected=frozenset())
    return SavedState(found)


class Wholes:
    """Hold a training's tensors whole, in memory; refuse one that has an element twice or lacks one."""

    def __init__(self, tensors: Mapping[tuple[str, str], Tensor]) -> None:
        self.tensors = dict(tensors)

    @classmethod
    def of(cls, engine: LayoutEngine) -> Wholes:
        """Gather all ranks' pieces, as files would hold them."""
        own = [(one.kind, one.parameter, one.box, one.data.clone()) for one in engine.pieces()]
        gathered: list[object] = [own]
        if distributed.is_initialized():
            gathered = [None] * distributed.get_world_size()
            distributed.all_gather_object(gathered, own)
        pieces = [
            piece for rank in cast(list[list[tuple[str, str, Box, Tensor]]], gathered) for piece in rank
        ]
        whole: dict[tuple[str, str], Tensor] = {}
        for key in {piece[:2] for piece in pieces}:
            boxes = [piece[2:] for piece in pieces if piece[:2] == key]
            shape = tuple(map(max, zip(*(box.ends for box, _ in boxes), strict=True)))
            assert sum(data.numel() for _, data in boxes) == torch.Size(shape).numel(), key
            whole[key] = torch.full(shape, torch.nan)
            for box, data in boxes:
                whole[key][box.slices] = data
            assert not whole[key].isnan().any(), key
        return cls(whole)

    def differing(self, engine: LayoutEngine) -> int:
        """Count the elements on this rank that differ from these in any bit."""
        weights = engine._updates.masters.items()  # copies, too, which others save
        held = [
            *engine.pieces(),
            *(piece for one, own in weights for piece in one.share.pieces(WEIGHTS, one.name, own)),
        ]
        assert held, "every rank holds something"
        return sum(
            int((self.tensors[one.kind, one.parameter][one.box.slices] != one.data).sum()) for one in held
        )
