"""What a fine-tuning is made of: data, model, process group, identity and the step to begin with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import distributed

from slipway.containers.data.glue.tasks import TASKS, Task
from slipway.containers.data.glue.texts import TRAIN, read_texts
from slipway.containers.data.glue.tokens import Examples, tokenise
from slipway.containers.data.sources.locations import is_remote, public
from slipway.containers.recipes.glue_finetune.backends import (
    choose_backend,
    prepare_backend,
    present_backends,
    refuse_other_world,
)
from slipway.containers.recipes.glue_finetune.batches import Batches
from slipway.containers.recipes.glue_finetune.config import GlueConfig
from slipway.containers.recipes.glue_finetune.model import Classifier
from slipway.containers.recipes.glue_finetune.pretrained import Pretrained, read_pretrained, refuse_long_rows
from slipway.containers.recipes.glue_finetune.weights import load_weights
from slipway.containers.runtime import disk
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.batch import BatchPlan
from slipway.containers.training.devices import Device, join_group
from slipway.containers.training.optimizers import Schedule
from slipway.containers.training.report import Say
from slipway.containers.training.start import local_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    task: Task
    train: Examples
    dev: Mapping[str, Examples]  # by the set's name; only MNLI has two

    @property
    def digest(self) -> str:
        return self.train.digest


def open_pretrained(config: GlueConfig, contract: LaunchContract) -> Pretrained:
    pretrained = read_pretrained(_place(contract, config.model), bucket_owner=contract.account)
    refuse_long_rows(pretrained, config.max_length)
    return pretrained


def open_data(config: GlueConfig, contract: LaunchContract, pretrained: Pretrained, say: Say) -> Data:
    task = TASKS[config.task]
    place = _place(contract, config.data or config.task)
    examples: dict[str, Examples] = {}
    for split in (TRAIN, *task.dev):
        texts = read_texts(place, task, split, bucket_owner=contract.account)
        if texts.left_out:
            say(f"{public(place)}: {texts.left_out} damaged rows of {split.name} are left out")
        examples[split.name] = tokenise(
            texts, pretrained.vocabulary, cased=pretrained.cased, longest=config.max_length
        )
    return Data(task=task, train=examples.pop(TRAIN.name), dev=examples)


@contextmanager
def process_group(config: GlueConfig, contract: LaunchContract, device: Device) -> Iterator[str]:
    """Gives what carries gradients, in words."""
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
    """The same weights on every rank; what the directory lacks is of the seed alone, drawn in fp32."""
    torch.manual_seed(config.seed)
    shape = pretrained.shape
    if config.dropout is not None:
        same = config.dropout
        shape = replace(shape, dropout=same, attention_dropout=same, head_dropout=same)
    model = Classifier(shape, task.outputs)
    if fresh := load_weights(model, pretrained.tensors, pretrained.place):
        say(f"{' and '.join(fresh)} of the model begin(s) fresh: {pretrained.place} has none that fits")
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
    """What must be the same on all ranks, and for a resumed training to be the same one."""
    return {
        **config.identity(),
        "global_batch": plan.global_batch,
        "micro_batch": plan.micro_batch,
        "precision": device.precision_name,
        "rows_sha256": data.digest,
        "model_sha256": pretrained.digest,
    }


def _place(contract: LaunchContract, given: str) -> str:
    if is_remote(given):
        return given
    if contract.data is None:
        raise Refusal("nobody said where the data is", hint="set SLIPWAY_DATA, or give s3:// addresses")
    if is_remote(contract.data):
        return f"{contract.data.rstrip('/')}/{given}"
    return str(disk.folder_within(str(local_folder("the data", contract.data)), *given.split("/")))
