"""What the well-known loader of such shards does with a file, written anew: six keys, whole, in this order.

NVIDIA's and Habana's BERT (run_pretraining.py) read them so; labels of places that are not masked are -1.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

KEYS = (
    "input_ids",
    "input_mask",
    "segment_ids",
    "masked_lm_positions",
    "masked_lm_ids",
    "next_sentence_labels",
)
Sample = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]


class ReferenceDataset:
    def __init__(self, path: Path, most_predictions: int) -> None:
        with h5py.File(path, "r") as file:
            self._inputs = [np.asarray(file[key][:]) for key in KEYS]
        self._most_predictions = most_predictions

    def __len__(self) -> int:
        return len(self._inputs[0])

    def __getitem__(self, row: int) -> Sample:
        ids, mask, segments, positions, labels = (column[row].astype(np.int64) for column in self._inputs[:5])
        empty = np.flatnonzero(positions == 0)
        count = int(empty[0]) if len(empty) else self._most_predictions
        masked_labels = np.full(ids.shape, -1, dtype=np.int64)
        masked_labels[positions[:count]] = labels[:count]
        return ids, segments, mask, masked_labels, int(self._inputs[5][row])
