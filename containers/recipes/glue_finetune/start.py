"""What fine-tuning brings to the session that all recipes share: data, model, schedule and its end."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import torch

from slipway.containers.data.glue.tasks import Task
from slipway.containers.models.folder import FOLDER
from slipway.containers.models.heads import Classifier
from slipway.containers.models.published import load_weights
from slipway.containers.recipes.glue_finetune.batch import Batches, plan_batch
from slipway.containers.recipes.glue_finetune.config import GlueConfig
from slipway.containers.recipes.glue_finetune.data import Data, locate, open_data
from slipway.containers.recipes.glue_finetune.ending import FinetuneEnd
from slipway.containers.recipes.glue_finetune.evaluate import Evaluations
from slipway.containers.recipes.glue_finetune.pretrained.read import (
    Pretrained,
    read_pretrained,
    refuse_long_rows,
)
from slipway.containers.recipes.glue_finetune.task import GlueBatches, GlueLoss
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.batch import BatchPlan
from slipway.containers.training.counting import at_most
from slipway.containers.training.report import Say
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.session import RecipeParts, Workplace
from slipway.containers.training.start import address_of_job

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
    dealt = GlueBatches(examples=data.train, batches=batches, reader=place.reader, seed=config.seed)
    ending = FinetuneEnd(
        config=config,
        pretrained=pretrained,
        batches=batches,
        scoring=Evaluations(
            task=data.task,
            sets=data.dev,
            model=model,
            contract=contract,
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
        identity=training_identity(config, plan, pretrained, data),
        open_batches=lambda beginning: nullcontext(dealt.after(beginning.step)),
        epsilon=TRAINER_EPSILON,
        after=ending.after,
        finish=ending.finish,
    )


def open_pretrained(config: GlueConfig, contract: LaunchContract) -> Pretrained:
    pretrained = read_pretrained(_place_of_model(config, contract), bucket_owner=contract.account)
    refuse_long_rows(pretrained, config.max_length)
    return pretrained


def _place_of_model(config: GlueConfig, contract: LaunchContract) -> str:
    if config.start_from is None:
        return locate(contract, config.model)
    return f"{address_of_job(contract, config.start_from)}/{FOLDER}"


def build_model(config: GlueConfig, pretrained: Pretrained, task: Task, say: Say) -> Classifier:
    """Build the same weights on every rank; what the directory lacks is drawn from the seed."""
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


def training_identity(
    config: GlueConfig, plan: BatchPlan, pretrained: Pretrained, data: Data
) -> dict[str, Json]:
    """Return what must be equal on all ranks, and for a resumed training to be the same one."""
    return {
        **config.identity(),
        "global_batch": plan.global_batch,
        "micro_batch": plan.micro_batch,
        "rows_sha256": data.digest,
        "model_sha256": pretrained.digest,
    }
