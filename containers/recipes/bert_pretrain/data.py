"""The loader's rows as the model's tensors: one step's micro-batches after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import torch

from slipway.containers.data.rows.dataset import Dataset, Rows
from slipway.containers.data.rows.loader import Batch, Cursor, Loader, Reading
from slipway.containers.data.tokens.settings import PHASES
from slipway.containers.recipes.bert_pretrain.config import BertConfig
from slipway.containers.runtime import disk
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.batch import BatchPlan
from slipway.containers.training.devices import Device
from slipway.containers.training.numbers import mixed
from slipway.containers.training.start import Beginning, local_folder
from slipway.containers.training.task import Inputs, MicroBatch, StepBatch

# The model's names, and the columns of the reference's HDF5 files.
_COLUMNS: Mapping[str, str] = {
    "words": "input_ids",
    "segments": "segment_ids",
    "mask": "input_mask",
    "positions": "masked_lm_positions",
    "labels": "masked_lm_ids",
    "follows": "next_sentence_labels",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BertBatches:
    """Make what one reader trains on, step after step."""

    plan: BatchPlan
    reader: int
    seed: int
    device: Device

    @contextmanager
    def open(self, dataset: Dataset, beginning: Beginning) -> Iterator[Iterator[StepBatch]]:
        reading = Reading(
            rank=self.reader, world=self.plan.readers, global_batch=self.plan.global_batch, seed=self.seed
        )
        with Loader(dataset, reading, _cursor(beginning)) as loader:
            yield (self.step_batch(step, batch) for step, batch in enumerate(loader, beginning.step))

    def step_batch(self, step: int, batch: Batch) -> StepBatch:
        rows = batch.arrays
        return StepBatch(
            micro_batches=[
                self._micro_batch(step, position, rows) for position in range(self.plan.accumulation_steps)
            ],
            rows=self.plan.global_batch,
            tokens=self.plan.global_batch * rows["input_ids"].shape[1],
            cursor=dict(asdict(batch.cursor)),
        )

    def _micro_batch(self, step: int, position: int, rows: Rows) -> MicroBatch:
        part = slice(position * self.plan.micro_batch, (position + 1) * self.plan.micro_batch)
        return MicroBatch(
            inputs=inputs_of({name: column[part] for name, column in rows.items()}, self.device),
            # Of the micro-batch, not of the rank: dropout is the same however the batch is shared.
            seed=mixed(self.seed, self.plan.number(step, self.reader, position)),
            weight=1 / self.plan.accumulation_steps,
        )


def inputs_of(rows: Rows, device: Device) -> Inputs:
    """Return the model's arguments for these rows, on the device."""
    columns = {name: rows[column] for name, column in _COLUMNS.items()}
    inputs = {name: torch.from_numpy(found).to(device.place) for name, found in columns.items()}
    return {**inputs, "mask": None} if columns["mask"].all() else inputs


def _cursor(beginning: Beginning) -> Cursor | None:
    if not beginning.step:
        return None
    try:
        return Cursor(**beginning.cursor)  # type: ignore[arg-type]  # a wrong field is a TypeError, told below
    except TypeError:
        raise Refusal(
            f"{beginning.folder} has no position in the data", hint="start again in another folder"
        ) from None


def open_dataset(contract: LaunchContract, config: BertConfig) -> Dataset:
    if contract.data is None:
        raise Refusal("there is no data folder", hint="set SLIPWAY_DATA, which the cluster's jobs do")
    root = local_folder("the data", contract.data)
    itself = config.dataset is None and (root / "manifest.json").exists()
    below = (config.dataset or f"phase{config.phase}").split("/")
    dataset = Dataset.open(root if itself else disk.folder_within(str(root), *below))
    wanted, found = PHASES[config.phase].row_tokens, dataset.manifest.plan.row_tokens
    if found != wanted:
        raise Refusal(
            f"{dataset.folder} has rows of {found} tokens, and phase {config.phase} trains on {wanted}",
            hint="prepare it with that --phase, or set phase or dataset",
        )
    return dataset
