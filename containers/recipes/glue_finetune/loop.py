"""Step after step: take the batch's rows, forward, backward, step, tell, save; evaluate as epochs end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, distributed

from containers.data.glue_tokens import Examples
from containers.recipes.bert_pretrain.ending import Ending
from containers.recipes.bert_pretrain.engine_torch import TorchEngine
from containers.recipes.bert_pretrain.loop import NotFinite, mixed
from containers.recipes.bert_pretrain.optimizers import Schedule
from containers.recipes.bert_pretrain.state import encode
from containers.recipes.glue_finetune.batches import Batches, Rows, dealt
from containers.recipes.glue_finetune.config import GlueConfig
from containers.recipes.glue_finetune.inputs import inputs_of
from containers.recipes.glue_finetune.model import Classifier, loss_of
from containers.runtime.checkpoint import Checkpoints, SaveFailed
from containers.runtime.errors import Interruption


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    step: int  # done, counted from 1
    rows: int
    tokens: int  # of those rows, padding not counted
    loss: float
    gradient_norm: float
    learning_rate: float
    seconds: float
    own_seconds: float  # before the first wait for another rank


@dataclass(slots=True, kw_only=True)
class Loop:
    config: GlueConfig
    rank: int
    examples: Examples
    batches: Batches
    model: Classifier
    engine: TorchEngine
    schedule: Schedule
    ending: Ending
    checkpoints: Checkpoints | None
    tell: Callable[[StepReport], None]
    evaluate: Callable[[int], object]  # after so many epochs
    say: Callable[[str], None]
    began: float = 0.0
    own_seconds: float = 0.0

    def run(self, first: int) -> None:
        saved, steps = first, self.schedule.steps
        for step in range(first, steps):
            if self.step(step):
                self._leave(step + 1, saved)
            if (step + 1) % self.config.checkpoint_every == 0 or step + 1 == steps:
                saved = self._save(step + 1, saved)
            epochs, rest = divmod(step + 1, self.batches.per_epoch)
            if self.config.evaluate == "epoch" and not rest and step + 1 < steps:
                self.evaluate(epochs)

    def step(self, step: int) -> bool:
        """Whether a rank was told to end."""
        self.began = time.perf_counter()
        micro_batches = self.batches.micro_batches(step)
        loss, must_end = self._compute(step, micro_batches)
        norm = self._move(loss, step)
        seconds = time.perf_counter() - self.began
        self.ending.longest_step_seconds = max(self.ending.longest_step_seconds, seconds)
        self._tell(step, micro_batches, loss, norm, seconds)
        return must_end

    def _compute(self, step: int, micro_batches: list[Rows]) -> tuple[float, bool]:
        """The mean loss of all rows, and whether a rank was told to end."""
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
            loss = loss_of(self.model(**inputs), labels)
            counted = len(rows) if mine else 0
            # The engine divides by the micro-batches of a whole batch; those that are short weigh less.
            weighted = loss * (counted * plan.micro_batches / count)
            self.own_seconds = time.perf_counter() - self.began
            self.engine.backward(weighted, is_last=number == numbers[-1])
            sums[0] += float(loss.detach()) * counted
        sums[1] = float(self.ending.is_near)
        total, ends = self._summed(sums)
        return total / count, ends > 0

    def _move(self, loss: float, step: int) -> float:
        if not math.isfinite(loss):
            raise NotFinite(self._explain(step, f"the loss is {loss}"))
        norm = self.engine.step(self.schedule.rate(step))
        if not math.isfinite(norm):
            raise NotFinite(self._explain(step, f"the gradient's norm is {norm}"))
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

    def _save(self, step: int, saved: int) -> int:
        """A save that fails costs this checkpoint, not the training: the older ones are intact."""
        if self.checkpoints is None:
            return saved
        began = time.perf_counter()
        try:
            self.checkpoints.save(step, encode(self.engine.pieces()))
        except SaveFailed as error:
            if step == self.schedule.steps:
                raise
            self.say(f"warning: {error}")
            return saved
        seconds = time.perf_counter() - began
        self.ending.longest_save_seconds = max(self.ending.longest_save_seconds, seconds)
        self.say(f"saved step {step} in {seconds:.1f} s")
        return step

    def _leave(self, step: int, saved: int) -> None:
        if step == self.schedule.steps:
            return
        if not self._summed(torch.tensor([float(not self.ending.has_time_to_save())]))[0]:
            saved = self._save(step, saved)
        raise Interruption(
            f"asked to end after step {step} of {self.schedule.steps}; saved up to step {saved}",
            hint="the next attempt goes on from there",
        )

    def _summed(self, values: Tensor) -> list[float]:
        if self.batches.plan.world > 1:
            distributed.all_reduce(values)
        found: list[float] = values.tolist()
        return found
