"""Train a small decoder in every layout of the ranks, and compare it with one rank."""

from __future__ import annotations

import time
from collections.abc import Iterator

from slipway.containers.models.decoder import DecoderShape
from slipway.containers.runtime.collective import Collective
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.observe.telemetry import Telemetry
from slipway.containers.training.config import TrainingConfig
from slipway.containers.training.devices import Device
from slipway.containers.training.engine import EngineParts, StepWatch, build_mesh
from slipway.containers.training.layout import BatchPlan, Layout
from slipway.containers.training.report import Words
from slipway.containers.training.self_check import WrongNumbers, check_layout
from slipway.containers.training.trial import decoder_trial, small_shape

MOST_RANKS = 8
_CONFIG = TrainingConfig(
    engine="native", optimizer="adamw", weight_decay=0.01, seed=1, checkpoint_every=1, keep=2
)
_SHAPE = DecoderShape(
    family="neox",
    layers=2,
    hidden=64,
    heads=4,
    intermediate=128,
    vocabulary=512,
    rotary_dimensions=4,
    has_attention_bias=True,
    is_tied=True,  # the ends of a pipeline then have something to send each other
)


def check_layouts(
    contract: LaunchContract, device: Device, collective: Collective, telemetry: Telemetry
) -> list[str]:
    """Print the result of each layout; return the messages of wrong ones, the same on every rank."""
    say, wrong = Words.of(contract).show, []
    for layout in layouts_of(contract.world, contract.local_world):
        telemetry.beat(f"layout {layout}")
        began, told = time.perf_counter(), "trains as one rank does"
        trial = decoder_trial(small_shape(_SHAPE, layout))
        parts = EngineParts(
            config=_CONFIG,
            task=trial.task,
            model=trial.build(),
            device=device,
            layout=layout,
            rank=contract.rank,
            plan=BatchPlan(micro_batch=1, accumulation_steps=1, readers=layout.readers),
            watch=StepWatch(),
            mesh=build_mesh(layout, device),
        )
        try:
            check_layout(parts, trial, collective)
        except WrongNumbers as found:
            told = "trains wrongly"
            wrong.append(found.message)
        say(f"layout {layout} {told} ({time.perf_counter() - began:.1f} s)")
    return wrong


def layouts_of(world: int, ranks_per_node: int) -> Iterator[Layout]:
    """Yield the layouts that cut a model, with tensor ranks on one node as recipes want them.

    Of more ranks than MOST_RANKS only those of small and of whole degrees: each layout has groups of its own,
    which hold memory of an accelerator until the process ends.
    """
    for tensor in _degrees(ranks_per_node, world):
        for pipeline in _degrees(world // tensor, world):
            for sharded in _degrees(world // (tensor * pipeline), world):
                layout = Layout.of(
                    world, sharded=sharded, tensor=tensor, pipeline=pipeline, ranks_per_node=ranks_per_node
                )
                if layout.cuts:
                    yield layout


def _degrees(ranks: int, world: int) -> list[int]:
    divisors = [each for each in range(1, ranks + 1) if ranks % each == 0]
    return divisors if world <= MOST_RANKS else sorted({*divisors[:2], divisors[-1]})
