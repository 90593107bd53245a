"""Step after step: read, forward, backward, step, tell, save; whatever the device, engine and launcher."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch

from slipway.containers.data.rows.loader import Batch
from slipway.containers.recipes.bert_pretrain.config import BertConfig
from slipway.containers.recipes.bert_pretrain.data import micro_batches
from slipway.containers.recipes.bert_pretrain.engine import Engine
from slipway.containers.training.agreement import summed
from slipway.containers.training.batch import BatchPlan
from slipway.containers.training.devices import Device
from slipway.containers.training.numbers import NotFinite, mixed
from slipway.containers.training.report import StepReport
from slipway.containers.training.saving import Saving
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.shutdown_watch import ShutdownWatch

MOST_SKIPPED = 10  # in a row: by then it is the training that is broken, not a batch


@dataclass(slots=True, kw_only=True)
class Loop:
    config: BertConfig
    plan: BatchPlan
    rank: int
    device: Device
    engine: Engine
    schedule: Schedule
    ending: ShutdownWatch
    saving: Saving
    tell: Callable[[StepReport], None]
    say: Callable[[str], None]
    skipped: int = 0
    began: float = 0.0
    own_seconds: float = 0.0  # as the host sees it: accelerators may still compute then

    def run(self, batches: Iterator[Batch], first: int) -> None:
        self.saving.newest = first
        for step in range(first, self.schedule.steps):
            self.began = time.perf_counter()
            batch = next(batches)
            sums, must_end = self._compute(batch, step)
            norm = self._move(sums, step)
            seconds = time.perf_counter() - self.began
            self.ending.longest_step_seconds = max(self.ending.longest_step_seconds, seconds)
            self._tell(step, batch, sum(sums), norm, seconds)
            self.saving.after(step + 1, must_end=must_end, cursor=dict(asdict(batch.cursor)))

    def _compute(self, batch: Batch, step: int) -> tuple[list[float], bool]:
        """Return the mean losses of all ranks, and True if one of them was told to end."""
        sums = torch.zeros(3, dtype=torch.float64 if self.device.kind == "cpu" else torch.float32)
        sums = sums.to(self.device.place)
        for position, inputs in enumerate(micro_batches(batch.arrays, self.plan, self.device)):
            # Of the micro-batch, not of the rank: dropout is the same however the batch is shared.
            self.device.seed(mixed(self.config.seed, self.plan.number(step, self.rank, position)))
            losses = self.engine.losses(inputs)
            is_last = position + 1 == self.plan.accumulation_steps
            self.own_seconds = time.perf_counter() - self.began
            self.engine.backward(losses.total, is_last=is_last)
            sums[:2] += torch.stack((losses.masked_words, losses.next_sentence)).detach()
            self.device.submit()
        sums[:2] /= self.plan.micro_batches
        sums[2] = float(self.ending.is_near)
        words, follows, ends = summed(sums)
        return [words, follows], ends > 0

    def _move(self, losses: list[float], step: int) -> float:
        if not math.isfinite(sum(losses)) and self.config.on_nan == "stop":
            raise NotFinite(self._explain(step, f"the loss is {sum(losses)}"))
        norm = self.engine.step(self.schedule.rate(step))
        self.device.submit()
        if math.isfinite(norm):
            self.skipped = 0
            return norm
        self.skipped += 1
        if self.config.on_nan == "stop" or self.skipped > MOST_SKIPPED:
            raise NotFinite(self._explain(step, f"the gradient norm is {norm}"))
        self.say(f"skipped step {step + 1}: the gradient norm is {norm}")
        return norm

    def _explain(self, step: int, what: str) -> str:
        return (
            f"{what} at step {step + 1}, learning rate {self.schedule.rate(step):.3g}, and was not saved: "
            "lower learning_rate, raise warmup_share, or set on_nan=skip with zero=0"
        )

    def _tell(self, step: int, batch: Batch, loss: float, norm: float, seconds: float) -> None:
        self.tell(
            StepReport(
                step=step + 1,
                rows=self.plan.global_batch,
                tokens=self.plan.global_batch * batch.arrays["input_ids"].shape[1],
                loss=loss,
                gradient_norm=norm,
                learning_rate=self.schedule.rate(step),
                seconds=seconds,
                own_seconds=self.own_seconds,
            )
        )
