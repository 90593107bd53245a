"""Some rows of the examples as the model's tensors, padded to the longest of them."""

from __future__ import annotations

import torch
from torch import Tensor

from slipway.containers.data.glue.tokens import Examples
from slipway.containers.recipes.glue_finetune.batches import Rows


def inputs_of(examples: Examples, rows: Rows) -> tuple[dict[str, Tensor | None], Tensor]:
    """What the model is called with, and the labels."""
    chosen = torch.from_numpy(rows)
    begins = torch.from_numpy(examples.begins)[chosen]
    lengths = torch.from_numpy(examples.begins)[chosen + 1] - begins
    places = torch.arange(int(lengths.max()))
    used = places < lengths[:, None]
    ids = torch.from_numpy(examples.ids)
    # Beyond a row's end lies another row, or nothing: any place will do, since it is zeroed.
    words = ids[(begins[:, None] + places).clamp(max=len(ids) - 1)] * used
    firsts = torch.from_numpy(examples.firsts)[chosen]
    segments = ((places >= firsts[:, None]) & used).long()
    mask = None if bool(used.all()) else used
    labels = torch.from_numpy(examples.labels)[chosen]
    return {"words": words.long(), "segments": segments, "mask": mask}, labels
