"""What is trained on and measured on: rows of the task's data, step after step and batch after batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from slipway.containers.data.glue.texts import TRAIN
from slipway.containers.data.sources.locations import is_remote
from slipway.containers.recipes.gptj_finetune.batch import BatchOrder, Rows, dealt
from slipway.containers.recipes.gptj_finetune.config import GptjConfig
from slipway.containers.recipes.gptj_finetune.rows import CUT_MULTIPLE, RowLayout, TokenRows
from slipway.containers.recipes.gptj_finetune.texts import (
    SST2,
    Tokeniser,
    candidate_rows,
    labelled_rows,
    read_sentences,
    text_rows,
)
from slipway.containers.runtime import disk
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.devices import Device
from slipway.containers.training.numbers import mixed
from slipway.containers.training.start import local_folder
from slipway.containers.training.task import Inputs, MicroBatch, StepBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningData:
    train: TokenRows
    held_out: TokenRows | None
    wanted: NDArray[np.int64] | None  # labels of what is held out, which then has two rows for each


def open_data(config: GptjConfig, contract: LaunchContract, tokeniser: Tokeniser) -> TuningData:
    """Read and tokenise what the task has."""
    place, account = locate(contract, config.data or config.task), contract.account
    if config.task == "sst2":
        texts = read_sentences(place, TRAIN, account)
        (split,) = SST2.dev
        held_out = read_sentences(place, split, account)
        return TuningData(
            train=labelled_rows(texts, tokeniser, config.length, loss_on=config.loss_on),
            held_out=candidate_rows(held_out, tokeniser, config.length),
            wanted=np.array(held_out.labels, dtype=np.int64),
        )

    def rows(given: str) -> TokenRows:
        return text_rows(given, tokeniser, config.length, field=config.field, account=account)

    other = None if config.held_out is None else rows(locate(contract, config.held_out))
    return TuningData(train=rows(place), held_out=other, wanted=None)


def locate(contract: LaunchContract, given: str) -> str:
    """Return the path or S3 address that a setting means; raise Refusal if there is no data folder."""
    if is_remote(given):
        return given
    if contract.data is None:
        raise Refusal("there is no data folder", hint="set SLIPWAY_DATA, or give s3:// addresses")
    if is_remote(contract.data):
        return f"{contract.data.rstrip('/')}/{given}"
    return str(disk.folder_within(str(local_folder("the data", contract.data)), *given.split("/")))


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningBatches:
    """Make what one reader trains on, step after step."""

    rows: TokenRows
    batches: BatchOrder
    layout: RowLayout
    reader: int
    seed: int
    device: Device

    def after(self, step: int) -> Iterator[StepBatch]:
        """Yield batches without end, beginning with that of a step."""
        while True:
            yield self.step_batch(step)
            step += 1

    def step_batch(self, step: int) -> StepBatch:
        micro_batches, plan = self.batches.micro_batches(step), self.batches.plan
        mine = dealt(len(micro_batches), self.reader, plan.readers)
        lengths, scored = self.rows.lengths, self.rows.scored
        share = plan.readers / sum(int(scored[each].sum()) for each in micro_batches)
        size = max(self.layout.size_of(lengths[micro_batches[number]]) for number in mine)
        together = size if self.layout.has_one_size else 0
        return StepBatch(
            micro_batches=[
                MicroBatch(
                    inputs=self.layout.inputs(self.rows, micro_batches[number], self.device, together),
                    seed=mixed(self.seed, step * plan.micro_batches + number),
                    weight=int(scored[micro_batches[number]].sum()) * share,
                )
                for number in mine
            ],
            rows=plan.global_batch,
            tokens=sum(int(lengths[each].sum()) for each in micro_batches),
        )


def row_layout(config: GptjConfig) -> RowLayout:
    return RowLayout(
        is_packed=config.rows == "packed",
        multiple=CUT_MULTIPLE if config.pipeline * config.tensor > 1 else 1,
        has_one_size=config.pipeline > 1,
    )


def candidate_inputs(data: TuningData, pairs: Rows, layout: RowLayout, device: Device) -> Inputs:
    """Return the inputs that measure some of what is held out: rows, or pairs of them with what is wanted."""
    assert data.held_out is not None, "only what is held out is measured on"
    if data.wanted is None:
        return layout.inputs(data.held_out, pairs, device)
    chosen = np.stack((2 * pairs, 2 * pairs + 1), axis=1).reshape(-1)
    owners = np.repeat(np.arange(len(chosen)), data.held_out.scored[chosen])
    return {
        **layout.inputs(data.held_out, chosen, device),
        "owners": torch.from_numpy(owners).to(device.place),
        "wanted": torch.from_numpy(data.wanted[pairs]).to(device.place),
    }
