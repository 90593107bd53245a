"""The parts that fine-tuning on GLUE gives to the shared session: data, model, schedule, and its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import count

import torch
from torch import Tensor, nn

from slipway.containers.data.glue.node_rows import Examples
from slipway.containers.data.glue.tasks import Task
from slipway.containers.models.encoder import Classifier, classification_loss
from slipway.containers.models.folder import FOLDER
from slipway.containers.models.published import load_weights
from slipway.containers.recipes.glue_finetune.config import GlueConfig
from slipway.containers.recipes.glue_finetune.data import (
    Batches,
    inputs_of,
    open_data,
    plan_batch,
)
from slipway.containers.recipes.glue_finetune.evaluate import Evaluations, FinetuneEnd
from slipway.containers.recipes.glue_finetune.pretrained import (
    Pretrained,
    read_pretrained,
    refuse_long_rows,
)
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.layout import at_most, dealt
from slipway.containers.training.report import Say, mixed
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.session import RecipeParts, Workplace
from slipway.containers.training.start import address_of_input, address_of_job
from slipway.containers.training.task import Inputs, MicroBatch, StepBatch

TRAINER_EPSILON = 1e-8  # of AdamW in the transformers Trainer, which the article uses
HEAD = ("pooler", "classifier")  # may be fresh: pre-training leaves no classifier, and some models no pooler


def prepare(config: GlueConfig, place: Workplace) -> RecipeParts:
    contract, words = place.contract, place.words
    plan = plan_batch(config, contract.nodes, place.layout.readers)
    pretrained = open_pretrained(config, contract)
    data = open_data(config, contract, pretrained, words.say)
    model = build_model(config, pretrained, data.task, words.say)
    batches = Batches(
        lengths=data.train.lengths, plan=plan, pool_batches=config.pool_batches, seed=config.seed
    )
    own = GlueBatches(
        examples=data.train,
        batches=batches,
        reader=place.reader,
        seed=config.seed,
        place=place.device.place,
    )
    ending = FinetuneEnd(
        config=config,
        pretrained=pretrained,
        batches=batches,
        scoring=Evaluations(
            task=data.task,
            sets=data.dev,
            model=model,
            contract=contract,
            place=place.device.place,
            beat=place.telemetry.beat,
            say=words.show,
        ),
        say=words.say,
    )
    return RecipeParts(
        title=f"{data.task.name}: {len(data.train)} rows",
        task=GlueLoss(),
        model=model,
        plan=plan,
        schedule=build_schedule(config, batches),
        identity={
            **config.identity(),
            "global_batch": plan.global_batch,
            "micro_batch": plan.micro_batch,
            "rows_sha256": data.train.digest,
            "model_sha256": pretrained.digest,
        },
        open_batches=lambda beginning: nullcontext(own.after(beginning.step)),
        epsilon=TRAINER_EPSILON,
        after=ending.after,
        finish=ending.finish,
    )


def open_pretrained(config: GlueConfig, contract: LaunchContract) -> Pretrained:
    if config.start_from is None:
        place = address_of_input(contract, config.model)
    else:
        place = f"{address_of_job(contract, config.start_from)}/{FOLDER}"
    pretrained = read_pretrained(place, bucket_owner=contract.account)
    refuse_long_rows(pretrained, config.max_length)
    return pretrained


def build_model(config: GlueConfig, pretrained: Pretrained, task: Task, say: Say) -> Classifier:
    """Build the same weights on every rank; draw those that the directory lacks from the seed."""
    torch.manual_seed(config.seed)
    shape = pretrained.shape
    if config.dropout is not None:
        same = config.dropout
        shape = replace(shape, dropout=same, attention_dropout=same, head_dropout=same)
    model = Classifier(shape, task.outputs)
    if fresh := load_weights(model, pretrained.tensors, HEAD):
        say(f"{' and '.join(fresh)} of the model start(s) random: {pretrained.place} has none that fit")
    return model


def build_schedule(config: GlueConfig, batches: Batches) -> Schedule:
    whole = config.epochs * batches.per_epoch
    return Schedule(
        peak=config.learning_rate,
        steps=at_most(whole, config.steps),
        warmup_share=config.warmup_share,
        decay_power=1.0,
    )


# The loss of fine-tuning, and its batches.


class GlueLoss:
    metrics = ("loss",)

    def forward(self, model: nn.Module, inputs: Inputs) -> Tensor:
        labels = inputs["labels"]
        assert labels is not None, "training rows have labels"
        arguments = {name: value for name, value in inputs.items() if name != "labels"}
        return classification_loss(model(**arguments), labels)[None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueBatches:
    """Make the batches of one reader, step after step."""

    examples: Examples
    batches: Batches
    reader: int
    seed: int
    place: torch.device

    def after(self, step: int) -> Iterator[StepBatch]:
        """Return the batches from a step on, without end."""
        return map(self.step_batch, count(step))

    def step_batch(self, step: int) -> StepBatch:
        micro_batches, plan = self.batches.micro_batches(step), self.batches.plan
        rows = sum(map(len, micro_batches))
        mine = dealt(len(micro_batches), self.reader, plan.readers)
        # Of an epoch's last rows a reader may have none: it goes through others' for nothing, since all ranks
        # must send their gradients before their sums.
        share = plan.readers / rows if mine else 0.0
        made = []
        for number in mine or [0]:
            inputs, labels = inputs_of(self.examples, micro_batches[number], self.place)
            made.append(
                MicroBatch(
                    inputs={**inputs, "labels": labels},
                    # A seed per micro-batch, not per rank: dropout is the same however the batch is shared.
                    seed=mixed(self.seed, step * plan.micro_batches + number),
                    weight=len(micro_batches[number]) * share,
                )
            )
        return StepBatch(
            micro_batches=made,
            rows=rows,
            tokens=sum(int(self.batches.lengths[each].sum()) for each in micro_batches),
        )
