"""BERT's pre-training data: open the datasets, and cut the loader's rows into micro-batches of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice

import torch

from slipway.containers.data.rows.dataset import Dataset, NodeChecks, Rows
from slipway.containers.data.rows.loader import Batch, Cursor, Loader, Reading
from slipway.containers.data.tokens.engine import PHASES
from slipway.containers.recipes.bert_pretrain.config import BertConfig, plan_batch
from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint.resume import saved_batch
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.devices import Device
from slipway.containers.training.layout import BatchPlan
from slipway.containers.training.loop import HeldOut
from slipway.containers.training.report import mixed
from slipway.containers.training.start import Beginning, local_folder, open_storage
from slipway.containers.training.task import Inputs, MicroBatch, StepBatch

# The names of the model's arguments, and the columns of the reference's HDF5 files.
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
    """Make the batches of one reader, step after step."""

    plan: BatchPlan
    reader: int
    seed: int
    device: Device

    @contextmanager
    def open(self, dataset: Dataset, beginning: Beginning) -> Iterator[Iterator[StepBatch]]:
        reading = Reading(
            rank=self.reader, world=self.plan.readers, global_batch=self.plan.global_batch, seed=self.seed
        )
        cursor = None
        if beginning.step:
            try:
                cursor = Cursor(**beginning.cursor)  # type: ignore[arg-type]  # a wrong field is a TypeError, caught below
            except TypeError:
                raise Refusal(
                    f"{beginning.folder} has no position in the data", hint="start again in another folder"
                ) from None
        with Loader(dataset, reading, cursor) as loader:
            yield (self.step_batch(step, batch) for step, batch in enumerate(loader, beginning.step))

    def step_batch(self, step: int, batch: Batch) -> StepBatch:
        rows, plan, micro_batches = batch.arrays, self.plan, []
        for position in range(plan.accumulation_steps):
            part = slice(position * plan.micro_batch, (position + 1) * plan.micro_batch)
            micro_batches.append(
                MicroBatch(
                    inputs=inputs_of({name: column[part] for name, column in rows.items()}, self.device),
                    # A seed per micro-batch, not per rank: dropout is the same however the batch is shared.
                    seed=mixed(self.seed, plan.number(step, self.reader, position)),
                    weight=1 / plan.accumulation_steps,
                )
            )
        return StepBatch(
            micro_batches=micro_batches,
            rows=plan.global_batch,
            tokens=plan.global_batch * rows["input_ids"].shape[1],
            cursor=dict(asdict(batch.cursor)),
        )


def inputs_of(rows: Rows, device: Device) -> Inputs:
    """Return the model's arguments for these rows, on the device."""
    columns = {name: rows[column] for name, column in _COLUMNS.items()}
    inputs = {name: torch.from_numpy(found).to(device.place) for name, found in columns.items()}
    # The fused kernels are faster without a mask; but a device that traces would compile both cases.
    without_mask = not device.traces and columns["mask"].all()
    return {**inputs, "mask": None} if without_mask else inputs


@dataclass(frozen=True, slots=True)
class BertData:
    """Hold the training rows, and the rows that are only measured on."""

    training: Dataset
    held_out: Dataset | None

    def held_out_batches(self, batches: BertBatches, config: BertConfig) -> HeldOut | None:
        """Return the held-out rows in batches, each with one micro-batch for every reader."""
        dataset, plan = self.held_out, batches.plan
        if dataset is None or config.evaluate_every is None:
            return None
        together = plan.micro_batch * plan.readers
        count = max(1, min(config.held_out_rows, dataset.rows) // together)
        reading = Reading(rank=batches.reader, world=plan.readers, global_batch=together, seed=config.seed)

        @contextmanager
        def open_batches() -> Iterator[Iterator[Inputs]]:
            with Loader(dataset, reading) as loader:
                yield (inputs_of(batch.arrays, batches.device) for batch in islice(loader, count))

        return HeldOut(
            every=config.evaluate_every,
            rows=count * together,
            open=open_batches,
            perplexity_of="masked_words",
        )


def keep_saved_batch(config: BertConfig, contract: LaunchContract, readers: int) -> BertConfig:
    """Return the config with the global batch of the checkpoints that it resumes, for any number of ranks.

    Unless global_batch is set, another number of ranks would give another batch, and so another training.
    """
    if contract.checkpoints is None or config.global_batch is not None or config.resume == "never":
        return config
    batch = saved_batch(open_storage(contract.checkpoints))
    smallest = config.micro_batch * readers
    if batch is None or batch == plan_batch(config, readers).global_batch:
        return config
    if batch % smallest:
        raise Refusal(
            f"the checkpoints in {contract.checkpoints} have a global batch of {batch}, which is no "
            f"multiple of {smallest} (micro_batch {config.micro_batch} × {readers} copies of the model)",
            hint="resume on a number of nodes that divides it, or set a smaller micro_batch",
        )
    return replace(config, global_batch=batch, accumulation_steps=None)


def open_data(contract: LaunchContract, config: BertConfig) -> BertData:
    dataset = open_dataset(contract, config, config.dataset)
    if config.held_out_share is not None:
        return BertData(*without_last_shards(dataset, config.held_out_share))
    if config.held_out is None:
        return BertData(dataset, None)
    held_out = open_dataset(contract, config, config.held_out)
    if held_out.manifest.plan.vocabulary_sha256 != dataset.manifest.plan.vocabulary_sha256:
        raise Refusal(
            f"{held_out.folder} has another vocabulary than {dataset.folder}",
            hint="prepare it with the same vocabulary, or set held_out to another dataset",
        )
    return BertData(dataset, held_out)


def without_last_shards(dataset: Dataset, share: float) -> tuple[Dataset, Dataset]:
    """Split a dataset into shards to train on and last shards to hold out, at least this share of the rows.

    Shards stay whole: all rows of one text are in one shard, and a text with another masking is not unseen.
    """
    shards = dataset.manifest.shards
    wanted, held = share * dataset.rows, 0
    first = len(shards)
    while first > 1 and held < wanted:
        first -= 1
        held += shards[first].rows
    if held < wanted or not held:
        raise Refusal(
            f"{dataset.folder} has {len(shards)} shard(s), too few to hold out {share:g} of its rows",
            hint="prepare a second dataset and set held_out to it, or set a smaller held_out_share",
        )
    parts = (replace(dataset.manifest, shards=part) for part in (shards[:first], shards[first:]))
    training, held_out = (Dataset(dataset.folder, part, dataset.digest, dataset.checks) for part in parts)
    return training, held_out


def open_dataset(contract: LaunchContract, config: BertConfig, below: str | None) -> Dataset:
    """Open a dataset below the data folder; by default the folder itself, or else its phase1 or phase2."""
    if contract.data is None:
        raise Refusal("there is no data folder", hint="set SLIPWAY_DATA, which the cluster's jobs do")
    root = local_folder(contract.data)
    itself = below is None and (root / "manifest.json").exists()
    parts = (below or f"phase{config.phase}").split("/")
    dataset = Dataset.open(root if itself else disk.folder_within(str(root), *parts))
    wanted, found = PHASES[config.phase].row_tokens, dataset.manifest.plan.row_tokens
    if found != wanted:
        raise Refusal(
            f"{dataset.folder} has rows of {found} tokens, and phase {config.phase} trains on {wanted}",
            hint="prepare it with that phase, or set phase or dataset",
        )
    return replace(dataset, checks=NodeChecks.of(contract, dataset.digest))
