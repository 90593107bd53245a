"""Step after step: read, forward, backward, step, tell, save; whatever the device, engine and platform."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, distributed

from containers.data.loader import Batch, Cursor
from containers.recipes.bert_pretrain.batch import BatchPlan
from containers.recipes.bert_pretrain.config import BertConfig
from containers.recipes.bert_pretrain.devices import Device
from containers.recipes.bert_pretrain.ending import Ending
from containers.recipes.bert_pretrain.engine import Engine
from containers.recipes.bert_pretrain.inputs import micro_batches
from containers.recipes.bert_pretrain.optimizers import Schedule
from containers.recipes.bert_pretrain.state import encode
from containers.runtime.checkpoint import Checkpoints, SaveFailed
from containers.runtime.errors import Interruption, Refusal

MOST_SKIPPED = 10  # in a row: by then it is the training that is broken, not a batch


class NotFinite(Refusal):
    """The loss or the gradient is NaN or infinite: the same again would end the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    step: int  # done, counted from 1
    loss: float
    masked_words_loss: float
    next_sentence_loss: float
    gradient_norm: float
    learning_rate: float
    seconds: float
    own_seconds: float  # before the first wait for another rank


@dataclass(slots=True, kw_only=True)
class Loop:
    config: BertConfig
    plan: BatchPlan
    rank: int
    device: Device
    engine: Engine
    schedule: Schedule
    ending: Ending
    checkpoints: Checkpoints | None
    tell: Callable[[StepReport], None]
    say: Callable[[str], None]
    skipped: int = 0
    began: float = 0.0
    own_seconds: float = 0.0  # as the host sees it: accelerators may still compute then

    def run(self, batches: Iterator[Batch], first: int) -> None:
        saved = first
        for step in range(first, self.config.steps):
            self.began = time.perf_counter()
            batch = next(batches)
            sums, must_end = self._compute(batch, step)
            norm = self._move(sums, step)
            seconds = time.perf_counter() - self.began
            self.ending.longest_step_seconds = max(self.ending.longest_step_seconds, seconds)
            self._tell(step, sums, norm, seconds)
            if must_end:
                self._leave(step + 1, saved, batch.cursor)
            if (step + 1) % self.config.checkpoint_every == 0 or step + 1 == self.config.steps:
                saved = self._save(step + 1, batch.cursor, saved)

    def _compute(self, batch: Batch, step: int) -> tuple[list[float], bool]:
        """The mean losses of all ranks, and whether one of them was told to end."""
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
        words, follows, ends = _summed(sums, self.plan.world)
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
            raise NotFinite(self._explain(step, f"the gradient's norm is {norm}"))
        self.say(f"step {step + 1} is left out: the gradient's norm is {norm}")
        return norm

    def _explain(self, step: int, what: str) -> str:
        return (
            f"{what} at step {step + 1}, learning rate {self.schedule.rate(step):.3g}, and was not saved: "
            "lower learning_rate, raise warmup_share, or set on_nan=skip with zero=0"
        )

    def _tell(self, step: int, losses: list[float], norm: float, seconds: float) -> None:
        words, follows = losses
        self.tell(
            StepReport(
                step=step + 1,
                loss=words + follows,
                masked_words_loss=words,
                next_sentence_loss=follows,
                gradient_norm=norm,
                learning_rate=self.schedule.rate(step),
                seconds=seconds,
                own_seconds=self.own_seconds,
            )
        )

    def _save(self, step: int, cursor: Cursor, saved: int) -> int:
        """A save that fails costs this checkpoint, not the training: the older ones are intact."""
        if self.checkpoints is None:
            return saved
        began = time.perf_counter()
        try:
            self.checkpoints.save(step, encode(self.engine.pieces()), cursor=dict(asdict(cursor)))
        except SaveFailed as error:
            if step == self.config.steps:
                raise
            self.say(f"warning: {error}")
            return saved
        seconds = time.perf_counter() - began
        self.ending.longest_save_seconds = max(self.ending.longest_save_seconds, seconds)
        self.say(f"saved step {step} in {seconds:.1f} s")
        return step

    def _leave(self, step: int, saved: int, cursor: Cursor) -> None:
        if step == self.config.steps:
            return
        if self._all_have_time():
            saved = self._save(step, cursor, saved)
        raise Interruption(
            f"asked to end after step {step} of {self.config.steps}; saved up to step {saved}",
            hint="the next attempt goes on from there",
        )

    def _all_have_time(self) -> bool:
        without = torch.tensor([float(not self.ending.has_time_to_save())], device=self.device.place)
        return not _summed(without, self.plan.world)[0]


def _summed(values: Tensor, world: int) -> list[float]:
    if world > 1:
        distributed.all_reduce(values)
    found: list[float] = values.tolist()
    return found


def mixed(seed: int, number: int) -> int:
    """Neighbours must not share a generator's stream: the finaliser of SplitMix64 (Steele et al. 2014)."""
    mixed = (seed * 0x9E3779B97F4A7C15 + number + 1) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (mixed ^ mixed >> 31) & 0x7FFFFFFFFFFFFFFF
