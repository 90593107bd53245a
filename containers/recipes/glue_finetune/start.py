"""What a fine-tuning is made of: data, model, process group, identity and the step to begin with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import distributed

from slipway.containers.data.glue.tasks import Task
from slipway.containers.models.heads import Classifier
from slipway.containers.recipes.glue_finetune.backends import (
    choose_backend,
    prepare_backend,
    present_backends,
    refuse_other_world,
)
from slipway.containers.recipes.glue_finetune.batch import Batches
from slipway.containers.recipes.glue_finetune.config import GlueConfig
from slipway.containers.recipes.glue_finetune.data import Data, locate
from slipway.containers.recipes.glue_finetune.pretrained.read import (
    Pretrained,
    read_pretrained,
    refuse_long_rows,
)
from slipway.containers.recipes.glue_finetune.pretrained.weights import load_weights
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.batch import BatchPlan
from slipway.containers.training.devices import Device, join_group
from slipway.containers.training.report import Say
from slipway.containers.training.schedules import Schedule


def open_pretrained(config: GlueConfig, contract: LaunchContract) -> Pretrained:
    pretrained = read_pretrained(locate(contract, config.model), bucket_owner=contract.account)
    refuse_long_rows(pretrained, config.max_length)
    return pretrained


@contextmanager
def process_group(config: GlueConfig, contract: LaunchContract, device: Device) -> Iterator[str]:
    """Join a process group for the duration; yield the name of the backend that carries gradients."""
    backend = choose_backend(config.backend, present_backends())
    if contract.world == 1:
        yield "nothing, alone"
        return
    prepare_backend(backend)
    join_group(replace(device, backend=backend), contract)
    try:
        refuse_other_world(backend, contract)
        yield backend
    finally:
        distributed.destroy_process_group()


def build_model(
    config: GlueConfig, device: Device, pretrained: Pretrained, task: Task, say: Say
) -> Classifier:
    """Build the same weights on every rank; what the directory lacks is drawn from the seed, in fp32."""
    torch.manual_seed(config.seed)
    shape = pretrained.shape
    if config.dropout is not None:
        same = config.dropout
        shape = replace(shape, dropout=same, attention_dropout=same, head_dropout=same)
    model = Classifier(shape, task.outputs)
    if fresh := load_weights(model, pretrained.tensors, pretrained.place):
        say(f"{' and '.join(fresh)} of the model start(s) random: {pretrained.place} has none that fit")
    return model.to(device.place, device.precision).train()


def build_schedule(config: GlueConfig, batches: Batches) -> Schedule:
    whole = config.epochs * batches.per_epoch
    return Schedule(
        peak=config.learning_rate,
        steps=min(whole, config.steps or whole),
        warmup_share=config.warmup_share,
        decay_power=1.0,
    )


def training_identity(
    config: GlueConfig, plan: BatchPlan, device: Device, pretrained: Pretrained, data: Data
) -> dict[str, Json]:
    """Return what must be equal on all ranks, and for a resumed training to be the same one."""
    return {
        **config.identity(),
        "global_batch": plan.global_batch,
        "micro_batch": plan.micro_batch,
        "precision": device.precision_name,
        "rows_sha256": data.digest,
        "model_sha256": pretrained.digest,
    }
