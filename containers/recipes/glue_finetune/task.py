"""What fine-tuning loses, and the batches that it takes one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from slipway.containers.data.glue.tokens import Examples
from slipway.containers.models.heads import classification_loss
from slipway.containers.recipes.glue_finetune.batch import Batches, Rows, dealt
from slipway.containers.recipes.glue_finetune.data import inputs_of
from slipway.containers.training.numbers import mixed
from slipway.containers.training.task import Inputs, MicroBatch, StepBatch


class GlueLoss:
    metrics = ("loss",)

    def forward(self, model: nn.Module, inputs: Inputs) -> Tensor:
        labels = inputs["labels"]
        assert labels is not None, "training rows have labels"
        arguments = {name: value for name, value in inputs.items() if name != "labels"}
        return classification_loss(model(**arguments), labels)[None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueBatches:
    """Make what one reader trains on, step after step."""

    examples: Examples
    batches: Batches
    reader: int
    seed: int

    def after(self, step: int) -> Iterator[StepBatch]:
        """Yield batches without end, beginning with that of a step."""
        while True:
            yield self.step_batch(step)
            step += 1

    def step_batch(self, step: int) -> StepBatch:
        micro_batches, plan = self.batches.micro_batches(step), self.batches.plan
        rows = sum(map(len, micro_batches))
        mine = dealt(len(micro_batches), self.reader, plan.readers)
        # Of an epoch's last rows a reader may have none: it goes through others' for nothing, since all ranks
        # must send their gradients before their sums.
        share = plan.readers / rows if mine else 0.0
        return StepBatch(
            micro_batches=[
                self._micro_batch(step, number, micro_batches[number], share) for number in mine or [0]
            ],
            rows=rows,
            tokens=sum(int(self.batches.lengths[each].sum()) for each in micro_batches),
        )

    def _micro_batch(self, step: int, number: int, rows: Rows, share: float) -> MicroBatch:
        inputs, labels = inputs_of(self.examples, rows)
        return MicroBatch(
            inputs={**inputs, "labels": labels},
            # Of the micro-batch, not of the rank: dropout is the same however the batch is shared.
            seed=mixed(self.seed, step * self.batches.plan.micro_batches + number),
            weight=len(rows) * share,
        )
