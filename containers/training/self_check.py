"""Ask real ranks, before a training begins, whether their layout trains as one rank does.

A small model of the same family takes steps in the layout, and once more on each rank alone, by torch's plain
autograd: losses and gradient norms must agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import nn

from slipway.containers.runtime.collective import Collective
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.engine import EngineParts
from slipway.containers.training.engines.native.engine import (
    build,
    fill_whole,
    initial_weights,
    make_gradients_dense,
)
from slipway.containers.training.layout import BatchPlan
from slipway.containers.training.optimizers import build_optimizer, set_rate
from slipway.containers.training.saving import summed
from slipway.containers.training.task import Inputs, MicroBatch
from slipway.containers.training.trial import ROWS, LayoutTrial

_STEPS, _RATE = 2, 1e-2
_SAMPLES = 8  # different micro-batches of a step: what a rank computes alone does not grow with the ranks
_LOSS_SCALE = 2.0**8  # fp16's own begins where a small model may overflow
# How far numbers may be apart, relative to one rank's. Sums in another order differ by 1e-6 in fp32, and 16
# bits keep three digits of each number. A share that is lost or counted twice is far more.
_CLOSE: Mapping[torch.dtype, float] = {torch.float32: 1e-3, torch.bfloat16: 0.05, torch.float16: 0.05}


class WrongNumbers(Refusal):
    """These ranks would train wrongly. Do not retry: another attempt might hide it."""

    exit_code = 1


class Numbers(NamedTuple):
    """Hold the loss and the gradient norm of one step."""

    loss: float
    norm: float

    def __str__(self) -> str:
        return f"a loss of {self.loss:.6g} and a gradient norm of {self.norm:.6g}"


def check_layout(parts: EngineParts, trial: LayoutTrial, collective: Collective) -> None:
    """Raise WrongNumbers on all ranks where the layout's differ: in fp32, then as layers compute."""
    device = replace(parts.device, compiles=False)  # that would take minutes
    stages = parts.layout.pipeline * parts.config.stages_per_rank
    plan = BatchPlan(micro_batch=ROWS, accumulation_steps=max(2, stages), readers=parts.layout.readers)
    parts = replace(parts, task=trial.task, plan=plan, device=device)
    wanted = _alone(parts, trial)
    for precision in dict.fromkeys((torch.float32, device.precision)):
        own = replace(parts, model=trial.build(), device=replace(device, precision=precision))
        told = collective.gather(_difference(_together(own, trial), wanted, _CLOSE[precision]))
        wrong = [rank for rank, difference in enumerate(told) if difference is not None]
        if wrong:
            raise WrongNumbers(
                f"the self-check of {own.layout} in {own.device.precision_name} failed: {told[wrong[0]]} "
                f"(on {len(wrong)} of {len(told)} ranks, first on rank {wrong[0]})",
                hint="the recipe smoke tells which layouts are right on these nodes; self_check=no trains "
                "all the same",
            )


def _together(parts: EngineParts, trial: LayoutTrial) -> list[Numbers]:
    """Train in the layout."""
    engine, layout, plan, found = build(parts), parts.layout, parts.plan, []
    if engine.scale is not None:
        engine.scale.value = _LOSS_SCALE
    for step in range(_STEPS):
        first = layout.reader(parts.rank) * plan.accumulation_steps
        samples = [_sample(step, first + position) for position in range(plan.accumulation_steps)]
        weight = 1 / plan.accumulation_steps
        sums = engine.accumulate(
            [
                MicroBatch(inputs=_moved(trial.inputs(sample), parts), seed=0, weight=weight)
                for sample in samples
            ]
        )
        counted = sums if layout.speaks(parts.rank) else torch.zeros_like(sums)
        found.append(Numbers(summed(counted)[0] / layout.readers, engine.step(_RATE)))
    return found


def _alone(parts: EngineParts, trial: LayoutTrial) -> list[Numbers]:
    """Train all readers' micro-batches on this rank, without an engine."""
    model, found = trial.build(), []
    fill_whole(model, initial_weights(model, parts.config.seed), parts.device.place)
    make_gradients_dense(model)
    model.train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = build_optimizer(parts.config.optimizer, parts.optimizer_groups(trained), is_fused=False)
    for step in range(_STEPS):
        loss, samples = 0.0, [_sample(step, number) for number in range(parts.plan.micro_batches)]
        for sample in dict.fromkeys(samples):
            weight = samples.count(sample) / len(samples)
            means = trial.task.forward(model, _moved(trial.inputs(sample), parts))
            (means[0] * weight).backward()
            loss += float(means[0].detach()) * weight
        norm = float(nn.utils.clip_grad_norm_(trained, parts.config.clip_norm))
        set_rate(optimizer, _RATE)
        optimizer.step()
        optimizer.zero_grad()
        found.append(Numbers(loss, norm))
    return found


def _sample(step: int, number: int) -> int:
    return step * _SAMPLES + number % _SAMPLES


def _moved(inputs: Inputs, parts: EngineParts) -> Inputs:
    """Bring inputs to the device, but for the lengths of packed rows, by which the processor decides."""
    return {
        name: value if value is None or name == "lengths" else value.to(parts.device.place)
        for name, value in inputs.items()
    }


def _difference(found: list[Numbers], wanted: list[Numbers], close: float) -> str | None:
    """Say at which step numbers first differ; NaN differs from everything."""
    for step, (ours, theirs) in enumerate(zip(found, wanted, strict=True), 1):
        pairs = zip(ours, theirs, strict=True)
        if not all(abs(one - other) <= close * abs(other) for one, other in pairs):
            return f"{ours} at step {step}, and one rank alone {theirs}"
    return None
