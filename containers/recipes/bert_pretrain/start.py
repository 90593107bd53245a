"""What the loop needs: process group, data, model, checkpoints, and the step to begin with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import distributed

from slipway.containers.data.rows.dataset import Dataset
from slipway.containers.data.rows.loader import Cursor
from slipway.containers.models.heads import BertForPreTraining
from slipway.containers.models.shapes import BERT_SIZES, EncoderShape
from slipway.containers.recipes.bert_pretrain.config import BertConfig
from slipway.containers.recipes.bert_pretrain.defaults import PEAKS
from slipway.containers.recipes.bert_pretrain.engine import Engine, engine_name
from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Resumed
from slipway.containers.runtime.checkpoint.manifest import read_manifest
from slipway.containers.runtime.checkpoint.resume import published
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.batch import BatchPlan
from slipway.containers.training.devices import Device, join_group
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.start import element_counts, local_folder, resume
from slipway.containers.training.state import read_pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Say where the loop begins: at step 0 with a fresh cursor, or where a checkpoint says."""

    step: int = 0
    cursor: Cursor | None = None


@contextmanager
def process_group(device: Device, contract: LaunchContract, config: BertConfig) -> Iterator[None]:
    """Join a process group for the duration, which DeepSpeed needs even with one rank."""
    if contract.world == 1 and engine_name(config) == "torch":
        yield
        return
    join_group(device, contract)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def build_model(config: BertConfig, device: Device, dataset: Dataset) -> BertForPreTraining:
    """Build the same weights on every rank, drawn from the seed alone, in fp32 on CPU."""
    torch.manual_seed(config.seed)
    model = BertForPreTraining(model_shape(config, dataset))
    return model.to(device.place, device.precision).train()


def model_shape(config: BertConfig, dataset: Dataset) -> EncoderShape:
    vocabulary = dataset.manifest.plan.vocabulary_entries
    shape = BERT_SIZES[config.size]
    return replace(shape, vocabulary=vocabulary, dropout=config.dropout, attention_dropout=config.dropout)


def build_schedule(config: BertConfig, plan: BatchPlan) -> Schedule:
    published_peak = PEAKS[config.size, config.phase].at(plan.global_batch)
    return Schedule(
        peak=published_peak if config.learning_rate is None else config.learning_rate,
        steps=config.steps_of(plan.global_batch),
        warmup_share=config.warmup_share,
        constant_share=config.constant_share,
        decay=config.schedule,
        decay_power=config.decay_power,
    )


def training_identity(
    config: BertConfig, plan: BatchPlan, device: Device, model: BertForPreTraining
) -> dict[str, Json]:
    """Return what must be equal on all ranks, and for a resumed training to be the same one."""
    return {
        **config.identity(),
        "steps": config.steps_of(plan.global_batch),
        "global_batch": plan.global_batch,
        "vocabulary": model.shape.vocabulary,
        "precision": device.precision_name,
    }


def begin(
    engine: Engine,
    model: BertForPreTraining,
    checkpoints: Checkpoints | None,
    config: BertConfig,
    contract: LaunchContract,
) -> Beginning:
    """Resume from a checkpoint, else start from the weights that the config names, else from step 0."""
    found = resume(engine, model, checkpoints, config.resume)
    if found is not None:
        return Beginning(step=found.step, cursor=_cursor(found))
    if config.start_from is not None:
        engine.start_from(read_pieces(_newest(contract, config.start_from), element_counts(model)))
    return Beginning()


def _cursor(found: Resumed) -> Cursor:
    saved = found.manifest.cursor
    try:
        return Cursor(**saved)  # type: ignore[arg-type]  # a wrong field is a TypeError, told below
    except TypeError:
        raise Refusal(
            f"{found.folder} has no position in the data", hint="start again in another folder"
        ) from None


def _newest(contract: LaunchContract, job: str) -> Resumed:
    """Return the newest checkpoint of another job, whose phase 1 this one continues. Its digests are
    checked as it is read."""
    if contract.checkpoints is None:
        raise Refusal("start_from needs a checkpoint folder", hint="set SLIPWAY_CHECKPOINTS")
    beside = local_folder("the checkpoints", contract.checkpoints).parent
    folder = disk.folder_within(str(beside), *job.split("/"))
    for path in published(folder).values():
        return Resumed(folder=path, manifest=read_manifest(path), rejected=frozenset())
    raise Refusal(
        f"{folder} holds no checkpoint to start from", hint="set start_from to a job that saved one"
    )
