"""The training loop for any recipe, engine, device and launcher: read, compute, update, report, save."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

import torch

from slipway.containers.runtime.observe.telemetry import Telemetry
from slipway.containers.training.engine import Engine, EngineParts, metric_sums
from slipway.containers.training.report import NotFinite, Say, StepProfiler, StepReport
from slipway.containers.training.saving import Saving, ShutdownWatch, summed
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.task import Inputs, StepBatch

MOST_SKIPPED = 10  # in a row: by then it is the training that is broken, not a batch
MOST_SCALED = 24  # in a row: halved so often, a loss scale of 2**16 is below 1


class AfterStep(NamedTuple):
    """Say what any rank was asked to do after a step, and all ranks then do."""

    to_end: bool
    to_save: bool


@dataclass(slots=True, kw_only=True)
class Loop:
    parts: EngineParts
    engine: Engine
    schedule: Schedule
    ending: ShutdownWatch
    saving: Saving
    tell: Callable[[StepReport], None]
    say: Callable[[str], None]
    after: Callable[[int], None]  # so many steps are done, saved and measured
    evaluation: Evaluation | None = None
    profiler: StepProfiler | None = None
    skipped: int = 0

    def run(self, batches: Iterator[StepBatch], first: int) -> None:
        self.saving.newest = first
        for step in range(first, self.schedule.steps):
            if self.profiler is not None:
                self.profiler.before(step + 1)
            self.parts.watch.begin()
            batch = next(batches)
            asked = self.step(step, batch)
            if self.profiler is not None:
                self.profiler.after(step + 1)
            self.saving.after(step + 1, must_end=asked.to_end, is_due=asked.to_save, cursor=batch.cursor)
            if self.evaluation is not None:
                self.evaluation.after(step + 1)
            self.after(step + 1)

    def step(self, step: int, batch: StepBatch) -> AfterStep:
        """Train one step; return what the ranks then have to do."""
        sums, layout, rank = self.engine.accumulate(batch.micro_batches), self.parts.layout, self.parts.rank
        counted = sums if layout.speaks(rank) else torch.zeros_like(sums)
        is_due = rank == 0 and self.saving.is_due()  # its clock is that of all ranks
        flags = counted.new_tensor([float(self.ending.is_near or self.saving.must_end), float(is_due)])
        # One message for both: the readers' losses, and what any rank was asked to do.
        first, *_, ends, due = summed(torch.cat((counted, flags)))
        loss = first / layout.readers
        norm = self._move(loss, step)
        seconds = self.parts.watch.seconds()
        self.ending.longest_step_seconds = max(self.ending.longest_step_seconds, seconds)
        self.tell(
            StepReport(
                step=step + 1,
                rows=batch.rows,
                tokens=batch.tokens,
                loss=loss,
                gradient_norm=norm,
                learning_rate=self.schedule.rate(step),
                seconds=seconds,
                own_seconds=self.parts.watch.own_seconds,
                loss_scale=self.engine.loss_scale,
            )
        )
        return AfterStep(ends > 0, due > 0)

    def _move(self, loss: float, step: int) -> float:
        """Update the weights and return the gradient norm; end or skip the step if a number is not finite."""
        on_nan = self.parts.config.on_nan
        if not math.isfinite(loss) and on_nan == "stop":
            raise NotFinite(self._explain(step, f"the loss is {loss}"))
        norm = self.engine.step(self.schedule.rate(step))
        if math.isfinite(norm):
            self.skipped = 0
            return norm
        self.skipped += 1
        self.engine.left_out += 1
        scale = self.engine.loss_scale
        what = f"the gradient norm is {norm}"
        if scale is not None:
            what += f" with a loss scale that is now {scale:g}"
        elif on_nan == "stop":
            raise NotFinite(self._explain(step, what))
        if self.skipped > (MOST_SKIPPED if scale is None else MOST_SCALED):
            raise NotFinite(self._explain(step, f"{what}, {self.skipped} times in a row,"))
        self.say(f"skipped step {step + 1}: {what}")
        return norm

    def _explain(self, step: int, what: str) -> str:
        advice = ["lower learning_rate", "raise warmup_share"]
        if self.parts.device.precision is torch.float16:
            advice.append("set precision=bf16 or fp32, which have the range that fp16 lacks")
        elif self.parts.config.on_nan == "stop":
            advice.append("set on_nan=skip with an engine other than deepspeed")
        rate = self.schedule.rate(step)
        return (
            f"{what} at step {step + 1}, learning rate {rate:.3g}, and was not saved: "
            f"{', '.join(advice[:-1])}, or {advice[-1]}"
        )


# Measure the loss on held-out rows every so many steps; print and record it.


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Hold the rows that a training is measured on; all readers yield equally many batches of equal size."""

    every: int  # steps
    rows: int  # of all readers
    open: Callable[[], AbstractContextManager[Iterator[Inputs]]]  # this reader's
    perplexity_of: str  # the metric whose exponential is one


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    held_out: HeldOut
    engine: Engine
    parts: EngineParts
    telemetry: Telemetry
    say: Say
    steps: int  # of the whole training

    def after(self, step: int) -> None:
        """Measure the mean of each metric over all readers if it is time, and after the last step."""
        if step % self.held_out.every and step != self.steps:
            return
        layout, sums, count = self.parts.layout, metric_sums(self.parts), 0
        with self.held_out.open() as batches:
            for inputs in batches:
                sums += self.engine.evaluate(inputs)
                count += 1
                self.telemetry.beat(f"evaluating batch {count}")
        counted = sums if layout.speaks(self.parts.rank) else torch.zeros_like(sums)
        means = [total / (count * layout.readers) for total in summed(counted)]
        self._tell(step, dict(zip(self.parts.task.metrics, means, strict=True)))

    def _tell(self, step: int, measures: dict[str, float]) -> None:
        loss = measures[self.held_out.perplexity_of]
        measures["perplexity"] = math.exp(loss) if loss < math.log(1e300) else math.inf
        told = "  ".join(f"{name} {value:.4g}" for name, value in measures.items())
        self.say(f"held out after step {step}: {told}  ({self.held_out.rows} rows)")
        self.telemetry.evaluated(step, measures)
