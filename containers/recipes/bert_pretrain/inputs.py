"""The loader's rows as the model's tensors: one micro-batch after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from slipway.containers.data.rows.dataset import Rows
from slipway.containers.training.batch import BatchPlan
from slipway.containers.training.devices import Device

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
