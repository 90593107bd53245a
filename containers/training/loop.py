"""Step after step: read, compute, move, tell, save; whatever the recipe, engine, device and launcher."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from slipway.containers.training.agreement import summed
from slipway.containers.training.engine import Engine, EngineParts
from slipway.containers.training.numbers import NotFinite
from slipway.containers.training.report import StepReport
from slipway.containers.training.saving import Saving
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.shutdown_watch import ShutdownWatch
from slipway.containers.training.task import StepBatch

MOST_SKIPPED = 10  # in a row: by then it is the training that is broken, not a batch


@dataclass(slots=True, kw_only=True)
class Loop:
    parts: EngineParts
    engine: Engine
    schedule: Schedule
    ending: ShutdownWatch
    saving: Saving
    tell: Callable[[StepReport], None]
    say: Callable[[str], None]
    after: Callable[[int], None]  # so many steps are done and saved
    skipped: int = 0

    def run(self, batches: Iterator[StepBatch], first: int) -> None:
        self.saving.newest = first
        for step in range(first, self.schedule.steps):
            self.parts.watch.begin()
            batch = next(batches)
            must_end = self.step(step, batch)
            self.saving.after(step + 1, must_end=must_end, cursor=batch.cursor)
            self.after(step + 1)

    def step(self, step: int, batch: StepBatch) -> bool:
        """Train one step; return True if a rank was told to end."""
        means, must_end = self._share(self.engine.accumulate(batch.micro_batches))
        norm = self._move(means[0], step)
        seconds = self.parts.watch.seconds()
        self.ending.longest_step_seconds = max(self.ending.longest_step_seconds, seconds)
        self.tell(
            StepReport(
                step=step + 1,
                rows=batch.rows,
                tokens=batch.tokens,
                loss=means[0],
                gradient_norm=norm,
                learning_rate=self.schedule.rate(step),
                seconds=seconds,
                own_seconds=self.parts.watch.own_seconds,
            )
        )
        return must_end

    def _share(self, sums: Tensor) -> tuple[list[float], bool]:
        """Return each metric's mean over readers, and True if a rank was told to end."""
        layout = self.parts.layout
        counted = sums if layout.speaks(self.parts.rank) else torch.zeros_like(sums)
        ends = counted.new_tensor([float(self.ending.is_near)])
        *found, told = summed(torch.cat((counted, ends)))
        return [each / layout.readers for each in found], told > 0

    def _move(self, loss: float, step: int) -> float:
        on_nan = self.parts.config.on_nan
        if not math.isfinite(loss) and on_nan == "stop":
            raise NotFinite(self._explain(step, f"the loss is {loss}"))
        norm = self.engine.step(self.schedule.rate(step))
        if math.isfinite(norm):
            self.skipped = 0
            return norm
        self.skipped += 1
        if on_nan == "stop" or self.skipped > MOST_SKIPPED:
            raise NotFinite(self._explain(step, f"the gradient norm is {norm}"))
        self.say(f"skipped step {step + 1}: the gradient norm is {norm}")
        return norm

    def _explain(self, step: int, what: str) -> str:
        return (
            f"{what} at step {step + 1}, learning rate {self.schedule.rate(step):.3g}, and was not saved: "
            "lower learning_rate, raise warmup_share, or set on_nan=skip with zero=0"
        )
