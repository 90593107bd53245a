"""Some rows of the examples as the model's tensors, without padding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from slipway.containers.data.glue.tasks import TASKS, Task
from slipway.containers.data.glue.texts import TRAIN, read_texts
from slipway.containers.data.glue.tokens import Examples, tokenise
from slipway.containers.data.sources.locations import is_remote, public
from slipway.containers.recipes.glue_finetune.batch import Rows
from slipway.containers.recipes.glue_finetune.config import GlueConfig
from slipway.containers.recipes.glue_finetune.pretrained.read import (
    Pretrained,
)
from slipway.containers.runtime import disk
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.report import Say
from slipway.containers.training.start import local_folder


def inputs_of(examples: Examples, rows: Rows) -> tuple[dict[str, Tensor | None], Tensor]:
    """Return the model's arguments for these rows, end to end, and the labels."""
    chosen = torch.from_numpy(rows)
    begins = torch.from_numpy(examples.begins)[chosen]
    lengths = torch.from_numpy(examples.begins)[chosen + 1] - begins
    ends = lengths.cumsum(0)
    places = torch.arange(int(ends[-1])) - (ends - lengths).repeat_interleave(lengths)
    words = torch.from_numpy(examples.ids)[begins.repeat_interleave(lengths) + places]
    firsts = torch.from_numpy(examples.firsts)[chosen].repeat_interleave(lengths)
    labels = torch.from_numpy(examples.labels)[chosen]
    return {"words": words.long(), "segments": (places >= firsts).long(), "lengths": lengths}, labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Hold the tokenised rows of one task."""

    task: Task
    train: Examples
    dev: Mapping[str, Examples]  # by the set's name; only MNLI has two

    @property
    def digest(self) -> str:
        return self.train.digest


def open_data(config: GlueConfig, contract: LaunchContract, pretrained: Pretrained, say: Say) -> Data:
    """Read and tokenise all sets of the task."""
    task = TASKS[config.task]
    place = locate(contract, config.data or config.task)
    examples: dict[str, Examples] = {}
    for split in (TRAIN, *task.dev):
        texts = read_texts(place, task, split, bucket_owner=contract.account)
        if texts.left_out:
            say(f"{public(place)}: skipped {texts.left_out} damaged rows of {split.name}")
        examples[split.name] = tokenise(
            texts, pretrained.vocabulary, cased=pretrained.cased, longest=config.max_length
        )
    return Data(task=task, train=examples.pop(TRAIN.name), dev=examples)


def locate(contract: LaunchContract, given: str) -> str:
    """Return the path or S3 address that a setting means; raise Refusal if there is no data folder."""
    if is_remote(given):
        return given
    if contract.data is None:
        raise Refusal("there is no data folder", hint="set SLIPWAY_DATA, or give s3:// addresses")
    if is_remote(contract.data):
        return f"{contract.data.rstrip('/')}/{given}"
    return str(disk.folder_within(str(local_folder("the data", contract.data)), *given.split("/")))
