"""GLUE's data: map the rows of a task, cut them into batches, and turn some of them into tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slipway.containers.data.glue.node_rows import Examples, node_rows
from slipway.containers.data.glue.tasks import TASKS, Task
from slipway.containers.data.glue.texts import TRAIN, open_table
from slipway.containers.data.glue.tokens import WordPieces
from slipway.containers.data.tokens.rng import permutation
from slipway.containers.recipes.glue_finetune.config import KEEPS_REST, GlueConfig
from slipway.containers.recipes.glue_finetune.pretrained import Pretrained
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.layout import BatchPlan, IndivisibleBatch, steps_of_epoch
from slipway.containers.training.report import Say
from slipway.containers.training.start import address_of_input


def inputs_of(examples: Examples, rows: Rows, place: torch.device) -> tuple[dict[str, Tensor | None], Tensor]:
    """Return the model's arguments for these rows, laid end to end, and the labels, on this device."""
    begins = torch.from_numpy(examples.begins[rows])
    lengths = torch.from_numpy(examples.begins[rows + 1]) - begins
    ends = lengths.cumsum(0)
    places = torch.arange(int(ends[-1])) - (ends - lengths).repeat_interleave(lengths)
    words = torch.from_numpy(examples.ids[(begins.repeat_interleave(lengths) + places).numpy()])
    firsts = torch.from_numpy(examples.firsts[rows]).repeat_interleave(lengths)
    labels = torch.from_numpy(examples.labels[rows])
    inputs: dict[str, Tensor | None] = {
        "words": words.long().to(place),
        "segments": (places >= firsts).long().to(place),
        "lengths": lengths,  # on the processor, which decides by them what is computed
    }
    return inputs, labels.to(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Hold the rows of one task."""

    task: Task
    train: Examples
    dev: Mapping[str, Examples]  # by the set's name; only MNLI has two


def open_data(config: GlueConfig, contract: LaunchContract, pretrained: Pretrained, say: Say) -> Data:
    """Map the rows of all sets of the task."""
    task = TASKS[config.task]
    place, words = address_of_input(contract, config.data or config.task), pretrained.words
    encoder = WordPieces(vocabulary=words.vocabulary, is_cased=words.is_cased, longest=config.max_length)
    examples: dict[str, Examples] = {}
    for split in (TRAIN, *task.dev):
        table = open_table(place, task, split, bucket_owner=contract.account)
        examples[split.name] = found = node_rows(table, encoder, contract)
        if found.left_out:
            say(f"{table.place}: skipped {found.left_out} damaged rows of {split.name}")
    return Data(task=task, train=examples.pop(TRAIN.name), dev=examples)


# The seed alone decides which rows make which batch and micro-batch. No torch here.
# A batch has random rows, the same on any number of ranks. Within it rows are sorted by length, so that rows
# of one length are neighbours and attend together; nothing is padded. Batches whose rows have similar lengths
# (pool_batches=50) have more such neighbours. But on sample rows whose length depends on the label, none of
# five such trainings learned (three seeds); without that dependence, all of three did.
OF_EXAMPLES, OF_BATCHES = 7, 8  # what random numbers are for; containers/data/rows/loader.py has those before
USUAL_MICRO_BATCH = 16  # half of the article's batch: two ranks can share it, and more at once is no faster

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batches:
    """Cut the rows of one training into batches."""

    lengths: Rows
    plan: BatchPlan
    pool_batches: int
    seed: int

    @property
    def per_epoch(self) -> int:
        return steps_of_epoch(len(self.lengths), self.plan.global_batch, keeps_rest=KEEPS_REST)

    def micro_batches(self, step: int) -> list[Rows]:
        """Return the micro-batches of all ranks; the last step of an epoch may have fewer, and a smaller
        last one."""
        epoch, at = divmod(step, self.per_epoch)
        rows = _epoch(self, epoch)[at]
        return [
            rows[begin : begin + self.plan.micro_batch]
            for begin in range(0, len(rows), self.plan.micro_batch)
        ]


@lru_cache(maxsize=2)
def _epoch(batches: Batches, epoch: int) -> list[Rows]:
    """Shuffle the rows, sort them by length within pools of pool_batches, then shuffle the batches."""
    size = batches.plan.global_batch
    order = permutation(len(batches.lengths), batches.seed, OF_EXAMPLES, epoch)
    pools = [
        order[at : at + size * batches.pool_batches]
        for at in range(0, len(order), size * batches.pool_batches)
    ]
    by_length = [pool[np.argsort(batches.lengths[pool], kind="stable")] for pool in pools]
    cut = [pool[at : at + size] for pool in by_length for at in range(0, len(pool), size)]
    return [cut[at] for at in permutation(len(cut), batches.seed, OF_BATCHES, epoch)]


def plan_batch(config: GlueConfig, nodes: int, readers: int) -> BatchPlan:
    """Return the plan for this many readers; raise IndivisibleBatch if the batch does not divide."""
    total = config.global_batch or config.batch_per_node * nodes
    if total % readers:
        below = total // readers * readers
        nearest = f"{below} or {below + readers}" if below else f"{readers}"
        raise IndivisibleBatch(
            f"a global batch of {total} rows is not a multiple of {readers} ranks",
            hint=f"set global_batch={nearest}",
        )
    share = total // readers
    micro_batch = config.micro_batch or next(
        size for size in range(min(USUAL_MICRO_BATCH, share), 0, -1) if share % size == 0
    )
    if share % micro_batch:
        raise IndivisibleBatch(
            f"{share} rows a rank (global batch {total} on {readers} ranks) are not a multiple of "
            f"micro_batch {micro_batch}",
            hint=f"set micro_batch to a divisor of {share}",
        )
    return BatchPlan(micro_batch=micro_batch, accumulation_steps=share // micro_batch, readers=readers)
