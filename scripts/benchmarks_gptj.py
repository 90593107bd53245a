"""Measure the tuning of a GPT-J against the transformers Trainer: same machine, weights, rows and settings.

Needs the training extra and transformers: scripts/bench gptj. After each of the Trainer's steps one of ours
runs, in one process. Both train on the same rows in the same order, so their losses can be compared. Rows and
model are made up: rows of SST-2's mean length and spread, and an untrained GPT-J of 4 layers of 256.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import transformers
from torch import Tensor

from scripts.benchmark_rows import Row
from scripts.benchmark_trainer import ALONE, train_in_turns
from scripts.benchmarks_gpu import parts_alone
from slipway.containers.models.configs import config_of
from slipway.containers.models.decoder import DecoderShape, build_decoder
from slipway.containers.models.folder import ModelPlan, described, write_model
from slipway.containers.recipes.gptj_finetune.config import decode
from slipway.containers.recipes.gptj_finetune.data import BatchOrder, TokenRows, TuningBatches, row_layout
from slipway.containers.recipes.gptj_finetune.model import CLASS, CausalTask
from slipway.containers.training.devices import open_device
from slipway.containers.training.engine import build_engine
from slipway.containers.training.layout import share_batch

SHAPE = DecoderShape(
    family="gptj",
    layers=4,
    hidden=256,
    heads=4,
    intermediate=1024,
    vocabulary=8192,
    rotary_dimensions=32,
    positions=256,
    has_head_bias=True,
)
BATCH, STEPS, WARM_UP_STEPS, RATE = 32, 12, 2, 1e-4
LENGTH = 64  # rows are cut to this length; a Trainer with one fixed length pads to it
# Tokens of SST-2's sentences with their labels: few on average, since many rows are phrases.
MEAN_TOKENS, SPREAD_TOKENS, LEAST_TOKENS = 16, 10, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """Hold how the Trainer's rows are padded, and our goal against it."""

    what: str
    loss_on: str
    pads_to: int  # 0: to the longest row of the batch
    goal: str


PADDINGS = (
    Padding(what="rows of one length", loss_on="row", pads_to=-1, goal="at least 1.2"),
    Padding(what="its batch's longest", loss_on="row", pads_to=0, goal="at least 2.5"),
    Padding(what=f"padded to {LENGTH}", loss_on="row", pads_to=LENGTH, goal="at least 2"),
    Padding(what=f"padded to {LENGTH}, label alone", loss_on="label", pads_to=LENGTH, goal="at least 2"),
)


def gptj() -> Iterator[Row]:
    torch.set_num_threads(1)
    yield from map(_side_by_side, PADDINGS)


def _side_by_side(padding: Padding) -> Row:
    ours = _Ours(_rows(padding))
    named = dict(build_decoder(SHAPE, seed=1).named_parameters())
    plan = ModelPlan(shape=SHAPE, sizes={name: tuple(tensor.shape) for name, tensor in named.items()})
    about = described(config_of(SHAPE, CLASS), {})
    with tempfile.TemporaryDirectory() as folder:
        # Both begin with these weights.
        written = write_model(Path(folder), plan, lambda name: named[name].detach(), about)
        turns = train_in_turns(  # with the Trainer's defaults, but with our rate and our order of rows
            transformers.AutoModelForCausalLM.from_pretrained(written),
            list(_items(ours)),
            ours.take_turn,
            lambda rows: _collate(rows, padding.pads_to),
            per_device_train_batch_size=BATCH,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            max_steps=STEPS,
            train_sampling_strategy="sequential",
        )
    apart = max(abs(a - b) for a, b in zip(ours.losses, turns.losses, strict=True))
    return turns.row(
        f"GPT-J 4×256, batch {BATCH}, {padding.what}",
        batch=BATCH,
        uncounted=WARM_UP_STEPS,
        goal=f"{padding.goal}; losses at most {apart:.1e} apart",
    )


def _rows(padding: Padding) -> TokenRows:
    draws = np.random.default_rng(3)
    count = STEPS * BATCH
    lengths = draws.normal(MEAN_TOKENS, SPREAD_TOKENS, count).round().astype(np.int64)
    lengths = np.clip(lengths, LEAST_TOKENS, LENGTH + 1)
    if padding.pads_to < 0:
        lengths[:] = LENGTH + 1
    ends = np.cumsum(lengths)
    ids = draws.integers(SHAPE.vocabulary, size=int(ends[-1])).astype(np.int32)
    firsts = np.ones_like(lengths) if padding.loss_on == "row" else lengths - 1
    return TokenRows(ids=ids, begins=ends - lengths, ends=ends, firsts=firsts)


class _Ours:
    """Trains with our engine on packed rows, with the recipe's own batches."""

    def __init__(self, rows: TokenRows) -> None:
        config = decode({"global_batch": str(BATCH), "micro_batch": str(BATCH), "precision": "fp32"})
        plan = share_batch(config.global_batch, config.micro_batch, 1)
        device = open_device(ALONE, "cpu", "fp32")
        self.order = BatchOrder(lengths=rows.lengths, plan=plan, seed=config.seed, is_even=False)
        self._batches = TuningBatches(
            rows=rows,
            batches=self.order,
            layout=row_layout(config),
            reader=0,
            seed=config.seed,
            device=device,
        )
        clipped = replace(config, clip_norm=1.0, weight_decay=0.0)  # the Trainer's values
        model = build_decoder(SHAPE, seed=1)
        self._engine = build_engine(parts_alone(device, clipped, plan, model, CausalTask()))
        self.rows = rows
        self.losses: list[float] = []

    def take_turn(self) -> None:
        batch = self._batches.step_batch(len(self.losses))
        self.losses.append(float(self._engine.accumulate(batch.micro_batches)[0]))
        self._engine.step(RATE)


def _items(ours: _Ours) -> Iterator[dict[str, Tensor]]:
    rows = ours.rows
    for step in range(STEPS):
        for row in np.concatenate(ours.order.micro_batches(step)).tolist():
            words = torch.from_numpy(rows.ids[rows.begins[row] : rows.ends[row]].astype(np.int64))
            labels = words.clone()
            labels[: int(rows.firsts[row])] = -100
            yield {"input_ids": words, "labels": labels, "attention_mask": torch.ones_like(words)}


def _collate(rows: list[dict[str, Tensor]], pads_to: int) -> dict[str, Tensor]:
    longest = max(pads_to, *(len(row["input_ids"]) for row in rows))
    fills: Mapping[str, int] = {"input_ids": 0, "labels": -100, "attention_mask": 0}

    def pad(words: Tensor, fill: int) -> Tensor:
        return torch.nn.functional.pad(words, (0, longest - len(words)), value=fill)

    return {name: torch.stack([pad(row[name], fill) for row in rows]) for name, fill in fills.items()}
