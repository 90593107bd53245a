"""Step after step: take the batch's rows, forward, backward, step, tell, save; evaluate as epochs end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from slipway.containers.data.glue.tokens import Examples
from slipway.containers.models.heads import Classifier, classification_loss
from slipway.containers.recipes.glue_finetune.batch import Batches, Rows, dealt
from slipway.containers.recipes.glue_finetune.config import GlueConfig
from slipway.containers.recipes.glue_finetune.data import inputs_of
from slipway.containers.training.agreement import summed
from slipway.containers.training.data_parallel import DataParallel
from slipway.containers.training.numbers import NotFinite, mixed
from slipway.containers.training.report import StepReport
from slipway.containers.training.saving import Saving
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.shutdown_watch import ShutdownWatch


@dataclass(slots=True, kw_only=True)
class Loop:
    config: GlueConfig
    rank: int
    examples: Examples
    batches: Batches
    model: Classifier
    engine: DataParallel
    schedule: Schedule
    ending: ShutdownWatch
    saving: Saving
    tell: Callable[[StepReport], None]
    evaluate: Callable[[int], object]  # after so many epochs
    began: float = 0.0
    own_seconds: float = 0.0

    def run(self, first: int) -> None:
        self.saving.newest, steps = first, self.schedule.steps
        for step in range(first, steps):
            self.saving.after(step + 1, must_end=self.step(step))
            epochs, rest = divmod(step + 1, self.batches.per_epoch)
            if self.config.evaluate == "epoch" and not rest and step + 1 < steps:
                self.evaluate(epochs)

    def step(self, step: int) -> bool:
        """Train one step; return True if a rank was told to end."""
        self.began = time.perf_counter()
        micro_batches = self.batches.micro_batches(step)
        loss, must_end = self._compute(step, micro_batches)
        norm = self._move(loss, step)
        seconds = time.perf_counter() - self.began
        self.ending.longest_step_seconds = max(self.ending.longest_step_seconds, seconds)
        self._tell(step, micro_batches, loss, norm, seconds)
        return must_end

    def _compute(self, step: int, micro_batches: list[Rows]) -> tuple[float, bool]:
        """Return the mean loss of all rows, and True if a rank was told to end."""
        plan, count = self.batches.plan, sum(map(len, micro_batches))
        sums = torch.zeros(2, dtype=torch.float64)
        mine = dealt(len(micro_batches), self.rank, plan.world)
        # Of an epoch's last rows a rank may have none: it goes through others' for nothing, since all ranks
        # must send their gradients before their sums.
        numbers = mine or [0]
        for number in numbers:
            rows = micro_batches[number]
            # Of the micro-batch, not of the rank: dropout is the same however the batch is shared.
            torch.manual_seed(mixed(self.config.seed, step * plan.micro_batches + number))
            inputs, labels = inputs_of(self.examples, rows)
            loss = classification_loss(self.model(**inputs), labels)
            counted = len(rows) if mine else 0
            # The engine divides by the micro-batches of a whole batch; those that are short weigh less.
            weighted = loss * (counted * plan.micro_batches / count)
            self.own_seconds = time.perf_counter() - self.began
            self.engine.backward(weighted, is_last=number == numbers[-1])
            sums[0] += float(loss.detach()) * counted
        sums[1] = float(self.ending.is_near)
        total, ends = summed(sums)
        return total / count, ends > 0

    def _move(self, loss: float, step: int) -> float:
        if not math.isfinite(loss):
            raise NotFinite(self._explain(step, f"the loss is {loss}"))
        norm = self.engine.step(self.schedule.rate(step))
        if not math.isfinite(norm):
            raise NotFinite(self._explain(step, f"the gradient norm is {norm}"))
        return norm

    def _explain(self, step: int, what: str) -> str:
        rate = self.schedule.rate(step)
        return f"{what} at step {step + 1}, learning rate {rate:.3g}, and was not saved: lower learning_rate"

    def _tell(self, step: int, micro_batches: list[Rows], loss: float, norm: float, seconds: float) -> None:
        lengths = self.batches.lengths
        self.tell(
            StepReport(
                step=step + 1,
                rows=sum(map(len, micro_batches)),
                tokens=sum(int(lengths[rows].sum()) for rows in micro_batches),
                loss=loss,
                gradient_norm=norm,
                learning_rate=self.schedule.rate(step),
                seconds=seconds,
                own_seconds=self.own_seconds,
            )
        )
