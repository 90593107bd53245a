"""Which rows make which micro-batch of which step: the seed alone decides. No torch here.

A batch is of random rows, the same in every layout. Inside it they lie by length, so that little is padded;
stages of a pipeline need micro-batches of one size, and so each gets some rows of all lengths there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.tokens.rng import permutation
from slipway.containers.recipes.gptj_finetune.config import KEEPS_REST
from slipway.containers.training.layout import BatchPlan, steps_of_epoch

_OF_ROWS = 9  # what random numbers are for: containers/data/rows/loader.py has others

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchOrder:
    """Cut the rows of one training into batches. What is left of an epoch waits for the next one."""

    lengths: Rows
    plan: BatchPlan
    seed: int
    is_even: bool  # micro-batches of a step have about as many tokens each

    @property
    def per_epoch(self) -> int:
        return steps_of_epoch(len(self.lengths), self.plan.global_batch, keeps_rest=KEEPS_REST)

    def micro_batches(self, step: int) -> list[Rows]:
        """Return the micro-batches of all readers, the longest rows first."""
        epoch, at = divmod(step, self.per_epoch)
        rows = _order(self, epoch)[at * self.plan.global_batch : (at + 1) * self.plan.global_batch]
        rows = rows[np.argsort(-self.lengths[rows], kind="stable")]
        count = self.plan.micro_batches
        if not self.is_even:
            return list(rows.reshape(count, -1))
        table = rows.reshape(-1, count)
        table[1::2] = table[1::2, ::-1]  # dealt to and fro: the longest of one turn, the shortest of the next
        return list(np.ascontiguousarray(table.T))


@lru_cache(maxsize=2)
def _order(batches: BatchOrder, epoch: int) -> Rows:
    return permutation(len(batches.lengths), batches.seed, _OF_ROWS, epoch)


def dealt(count: int, reader: int, readers: int) -> list[int]:
    """Return which of `count` micro-batches a reader gets: to and fro, so that none has all the long ones."""
    return [
        turn + (readers - 1 - reader if turn // readers % 2 else reader) for turn in range(0, count, readers)
    ]
