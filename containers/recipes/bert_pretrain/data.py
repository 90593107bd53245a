"""The loader's rows as the model's tensors: one micro-batch after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from slipway.containers.data.rows.dataset import Dataset, Rows
from slipway.containers.data.tokens.settings import PHASES
from slipway.containers.recipes.bert_pretrain.config import BertConfig
from slipway.containers.runtime import disk
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.batch import BatchPlan
from slipway.containers.training.devices import Device
from slipway.containers.training.start import local_folder

# The model's names, and the columns of the reference's HDF5 files.
_COLUMNS: Mapping[str, str] = {
    "words": "input_ids",
    "segments": "segment_ids",
    "mask": "input_mask",
    "positions": "masked_lm_positions",
    "labels": "masked_lm_ids",
    "follows": "next_sentence_labels",
}


def micro_batches(rows: Rows, plan: BatchPlan, device: Device) -> Iterator[dict[str, Tensor | None]]:
    for position in range(plan.accumulation_steps):
        part = slice(position * plan.micro_batch, (position + 1) * plan.micro_batch)
        columns = {name: rows[column][part] for name, column in _COLUMNS.items()}
        yield {name: torch.from_numpy(found).to(device.place) for name, found in columns.items()} | (
            {"mask": None} if columns["mask"].all() else {}
        )


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
