"""Run one training of any recipe, from its settings to its last step: open everything that the loop needs.

A recipe's `prepare` reads its data and builds its model; the rest is the same for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from slipway.containers.runtime.checkpoint.checkpoints import Training
from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.observe.telemetry import Telemetry
from slipway.containers.training.config import TrainingConfig, refuse_unproved
from slipway.containers.training.devices import Device, open_device, with_backend, with_layers
from slipway.containers.training.engine import (
    EngineParts,
    StepWatch,
    build_engine,
    build_mesh,
    checkpoint_wire,
    process_group,
)
from slipway.containers.training.layout import BatchPlan, Layout
from slipway.containers.training.loop import Evaluation, HeldOut, Loop
from slipway.containers.training.optimizers import BETAS, EPSILON
from slipway.containers.training.report import Reporter, StepProfiler, Words
from slipway.containers.training.saving import Saving, ShutdownWatch, check_ranks_agree
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.start import (
    MICRO_BATCH,
    Beginning,
    Trained,
    begin,
    open_checkpoints,
    shapes_of,
)
from slipway.containers.training.task import StepBatch, Task
from slipway.containers.training.trial import LayoutTrial

AnyConfig = TypeVar("AnyConfig", bound=TrainingConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """Describe where this rank trains, for a recipe's `prepare`."""

    contract: LaunchContract
    layout: Layout
    device: Device
    words: Words
    telemetry: Telemetry

    @property
    def reader(self) -> int:
        return self.layout.reader(self.contract.rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeParts:
    """Hold the parts that a recipe gives to its training."""

    title: str  # one line: what is trained on what
    task: Task
    model: nn.Module  # the same weights on every rank, in fp32 on the processor
    plan: BatchPlan
    schedule: Schedule
    identity: dict[str, Json]  # what ranks must share, and a resumed training with the saved one
    open_batches: Callable[[Beginning], AbstractContextManager[Iterator[StepBatch]]]
    betas: tuple[float, float] = BETAS  # of the optimizer
    epsilon: float = EPSILON  # likewise
    start_from: str | None = None  # a job whose newest weights it begins with
    flops_per_token: float | None = None  # of forward and backward; None: nobody counted
    held_out: HeldOut | None = None
    trial: Callable[[], LayoutTrial] | None = None  # what a self-check trains; None: the model is never cut
    agree: Callable[[Collective], None] = field(default=lambda collective: None)  # before the model is cut
    after: Callable[[Trained, int], None] = field(default=lambda trained, steps: None)
    finish: Callable[[Trained], None] = field(default=lambda trained: None)


Prepare = Callable[[AnyConfig, Workplace], RecipeParts]


def train(
    config: AnyConfig, contract: LaunchContract, layout: Layout, prepare: Prepare[AnyConfig], stack: ExitStack
) -> None:
    refuse_unproved(config, torch.__version__, accelerator=contract.accelerator, holder="this machine")
    place = _open_place(config, contract, layout, stack)
    ending = ShutdownWatch(contract)
    brought = prepare(config, place)
    if layout.tensor * layout.pipeline > 1:
        layout.check(brought.model.shape, stages_per_rank=config.stages_per_rank)
        config.check_step(layout, brought.plan)
    collective = stack.enter_context(
        process_group(place.device, contract, alone_too=config.engine_name == "deepspeed")
    )
    identity = {**brought.identity, "precision": place.device.precision_name}
    check_ranks_agree(identity, collective)
    brought.agree(collective)
    shapes = shapes_of(brought.model)  # before an engine cuts it
    parts = _engine_parts(config, place, brought)
    if config.self_check == "yes" and config.engine_name == "native" and layout.cuts and brought.trial:
        parts = _self_checked(parts, brought.trial(), collective, place)
    engine = build_engine(parts)
    # No part of the identity: it may change, and is told then.
    topology = {**layout.degrees, MICRO_BATCH: brought.plan.micro_batch}
    training = Training.of(contract, topology=topology, config=identity)
    checkpoints = stack.enter_context(
        open_checkpoints(contract, training, config.keep, checkpoint_wire(contract), place.words.say)
    )
    trained = Trained(contract=contract, engine=engine, checkpoints=checkpoints, steps=brought.schedule.steps)
    beginning = begin(trained, shapes, config.resume, brought.start_from)
    for line in _differences(config, beginning.topology, topology):
        place.words.say(line)
    over = place.device.backend if contract.world > 1 else "nothing, alone"
    place.words.say(
        f"{brought.title}, {contract.world} rank(s) in {place.device.precision_name}, over {over}"
    )
    batches = stack.enter_context(brought.open_batches(beginning))
    loop = _loop(parts, place, brought, trained, ending)
    if loop.profiler is not None:
        stack.callback(loop.profiler.close)
    loop.run(batches, beginning.step)
    brought.finish(trained)


def _differences(config: TrainingConfig, saved: Mapping[str, int], now: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each change since the checkpoint that makes the training go on otherwise."""
    saved = {**now, **saved}  # an old checkpoint does not say all of it
    if saved[MICRO_BATCH] != now[MICRO_BATCH]:
        yield (
            f"micro_batch was {saved[MICRO_BATCH]} and is {now[MICRO_BATCH]}: dropout, which each draws for "
            "itself, is other than it would have been"
        )
    if config.optimizer == "lans" and config.zero and saved["data"] != now["data"]:
        yield (
            f"ranks were {saved['data']} and are {now['data']}: LANS divides by the norms of their shares "
            "under ZeRO, and takes other steps than it would have"
        )


def _self_checked(
    parts: EngineParts, trial: LayoutTrial, collective: Collective, place: Workplace
) -> EngineParts:
    """Raise WrongNumbers if the layout trains differently from one rank; return the parts with its mesh."""
    from slipway.containers.training.self_check import check_layout

    began = time.perf_counter()
    parts = replace(parts, mesh=build_mesh(parts.layout, parts.device))
    check_layout(parts, trial, collective)
    took = time.perf_counter() - began
    place.words.say(f"self-check: {parts.layout} trains a small model as one rank does ({took:.1f} s)")
    return parts


def _open_place(
    config: TrainingConfig, contract: LaunchContract, layout: Layout, stack: ExitStack
) -> Workplace:
    device = open_device(contract, config.device, config.precision)
    return Workplace(
        contract=contract,
        layout=layout,
        device=with_backend(with_layers(device, config.compile_layers), config.backend),
        words=Words.of(contract),
        telemetry=stack.enter_context(Telemetry.of(contract)),
    )


def _engine_parts(config: TrainingConfig, place: Workplace, brought: RecipeParts) -> EngineParts:
    return EngineParts(
        config=config,
        task=brought.task,
        model=brought.model,
        device=place.device,
        layout=place.layout,
        rank=place.contract.rank,
        plan=brought.plan,
        watch=StepWatch(),
        betas=brought.betas,
        epsilon=brought.epsilon,
    )


def _loop(
    parts: EngineParts, place: Workplace, brought: RecipeParts, trained: Trained, ending: ShutdownWatch
) -> Loop:
    config, device, words = parts.config, place.device, place.words
    saving = Saving(
        engine=trained.engine,
        checkpoints=trained.checkpoints,
        ending=ending,
        every=config.checkpoint_every,
        minutes=config.checkpoint_minutes,
        steps=trained.steps,
        place=device.place,
        say=words.say,
    )
    reporter = Reporter(
        steps=trained.steps,
        log_every=config.log_every,
        device=device,
        world=place.contract.world,
        telemetry=place.telemetry,
        show=words.show,
        usd_per_hour=place.contract.usd_per_hour,
        flops_per_token=brought.flops_per_token,
    )
    evaluation = None
    if brought.held_out is not None:
        evaluation = Evaluation(
            held_out=brought.held_out,
            engine=trained.engine,
            parts=parts,
            telemetry=place.telemetry,
            say=words.show,
            steps=trained.steps,
        )
    return Loop(
        parts=parts,
        engine=trained.engine,
        schedule=brought.schedule,
        ending=ending,
        saving=saving,
        tell=reporter.tell,
        say=words.say,
        after=partial(brought.after, trained),
        evaluation=evaluation,
        profiler=_profiler(config, place),
    )


def _profiler(config: TrainingConfig, place: Workplace) -> StepProfiler | None:
    """Return the profiler for the steps that were asked for, on the first rank."""
    if config.profile is None or place.contract.rank:
        return None
    if place.contract.logs is None:
        place.words.say("SLIPWAY_LOGS is not set: no profile is written")
        return None
    first, _, last = config.profile.partition(":")
    return StepProfiler(
        first=int(first),
        last=int(last),
        folder=Path(place.contract.logs),
        rank=place.contract.rank,
        device=place.device,
        say=place.words.say,
    )
