"""Measure the tuning of a GPT-J beside the transformers Trainer's: same machine, weights, rows and settings.

Needs the training extra and transformers: scripts/bench gptj. After each of the Trainer's steps one of ours,
in one process; both train on the same rows in the same order, so their losses are told beside each other.
Rows are of SST-2's mean length and spread, made up; a GPT-J of 4 layers of 256 that has seen no text.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scripts.benchmark_rows import Row
from scripts.benchmarks_training import ALONE
from slipway.containers.models.configs import config_of
from slipway.containers.models.decoder import DecoderShape, build_decoder
from slipway.containers.models.folder import ModelPlan, WeightPiece, described, write_model
from slipway.containers.recipes.gptj_finetune.batch import BatchOrder
from slipway.containers.recipes.gptj_finetune.config import GptjConfig, decode
from slipway.containers.recipes.gptj_finetune.data import TokenRows, TuningBatches, row_layout
from slipway.containers.recipes.gptj_finetune.model import CLASS, CausalTask
from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.training.devices import open_device
from slipway.containers.training.engine import EngineParts, StepWatch, build_engine
from slipway.containers.training.layout import Layout, share_batch

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
LENGTH = 64  # what rows are cut to, and padded to where a Trainer pads to one length
# Tokens of SST-2's sentences with their label: few in the mean, since many rows are phrases.
MEAN_TOKENS, SPREAD_TOKENS, LEAST_TOKENS = 16, 10, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """Say what the Trainer is given, and what we promise beside it."""

    what: str
    loss_on: str
    pads_to: int  # 0: to the longest of its batch
    goal: str


PADDINGS = (
    Padding(what="rows of one length", loss_on="row", pads_to=-1, goal="at least 1.1"),
    Padding(what="its batch's longest", loss_on="row", pads_to=0, goal="none"),
    Padding(what=f"padded to {LENGTH}", loss_on="row", pads_to=LENGTH, goal="at least 2"),
    Padding(what=f"padded to {LENGTH}, label alone", loss_on="label", pads_to=LENGTH, goal="at least 2"),
)


def gptj() -> list[Row]:
    torch.set_num_threads(1)
    return [_side_by_side(padding) for padding in PADDINGS]


def _side_by_side(padding: Padding) -> Row:
    rows = _rows(padding)
    with tempfile.TemporaryDirectory() as folder:
        ours = _Ours(rows)
        theirs = _Theirs(ours, padding, _write(Path(folder)), folder)
        theirs.train()
    our_seconds, their_seconds = (sum(each.seconds[WARM_UP_STEPS:]) for each in (ours, theirs))
    apart = max(abs(a - b) for a, b in zip(ours.losses, theirs.losses, strict=True))
    count = (STEPS - WARM_UP_STEPS) * BATCH
    return Row(
        what=f"GPT-J 4×256, batch {BATCH}, {padding.what}",
        measured=f"{count / our_seconds:.0f} rows/s",
        beside=f"Trainer {count / their_seconds:.0f} rows/s",
        ratio=f"ratio {their_seconds / our_seconds:.2f}",
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


def _write(folder: Path) -> Path:
    """Write the weights that both begin with, as transformers loads them."""
    named = dict(build_decoder(SHAPE, seed=1).named_parameters())
    plan = ModelPlan(shape=SHAPE, sizes={name: tuple(tensor.shape) for name, tensor in named.items()})
    pieces = (
        WeightPiece(parameter=name, box=Box.whole(tensor.shape), data=tensor.detach())
        for name, tensor in named.items()
    )
    return write_model(folder, plan, pieces, described(config_of(SHAPE, CLASS), {}))


class _Ours:
    """Our engine on packed rows, with the recipe's own batches."""

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
        parts = EngineParts(
            config=_clipped_as_the_trainer(config),
            task=CausalTask(),
            model=build_decoder(SHAPE, seed=1),
            device=device,
            layout=Layout(),
            rank=0,
            plan=plan,
            watch=StepWatch(),
        )
        self._engine = build_engine(parts)
        self.rows = rows
        self.seconds: list[float] = []
        self.losses: list[float] = []

    def take_turn(self) -> None:
        began = time.process_time()
        batch = self._batches.step_batch(len(self.seconds))
        self.losses.append(float(self._engine.accumulate(batch.micro_batches)[0]))
        self._engine.step(RATE)
        self.seconds.append(time.process_time() - began)


def _clipped_as_the_trainer(config: GptjConfig) -> GptjConfig:
    return replace(config, clip_norm=1.0, weight_decay=0.0)


class _Theirs:
    """The Trainer with its defaults, but for the rate and the order of rows, which are ours."""

    def __init__(self, ours: _Ours, padding: Padding, model: Path, folder: str) -> None:
        import transformers

        self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(model)
        self._ours, self._padding, self._folder = ours, padding, folder
        self.seconds: list[float] = []
        self.losses: list[float] = []

    def train(self) -> None:
        import transformers

        theirs, ours, resumed = self, self._ours, [0.0]

        class Turns(transformers.TrainerCallback):
            def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
                resumed[0] = time.process_time()

            def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
                theirs.seconds.append(time.process_time() - resumed[0])
                ours.take_turn()
                resumed[0] = time.process_time()

            def on_log(self, args: Any, state: Any, control: Any, logs: Any, **rest: Any) -> None:
                if "loss" in logs:
                    theirs.losses.append(float(logs["loss"]))

        class InOurOrder(transformers.Trainer):
            def _get_train_sampler(self, *_: Any) -> Any:
                return torch.utils.data.SequentialSampler(self.train_dataset)

        InOurOrder(
            model=self._model,
            args=self._arguments(),
            train_dataset=_Items(list(self._items())),
            data_collator=self._collate,
            callbacks=[Turns()],
        ).train()

    def _items(self) -> Iterator[dict[str, Tensor]]:
        rows = self._ours.rows
        for step in range(STEPS):
            for row in np.concatenate(self._ours.order.micro_batches(step)).tolist():
                words = torch.from_numpy(rows.ids[rows.begins[row] : rows.ends[row]].astype(np.int64))
                labels = words.clone()
                labels[: int(rows.firsts[row])] = -100
                yield {"input_ids": words, "labels": labels}

    def _collate(self, rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        longest = max(self._padding.pads_to, *(len(row["input_ids"]) for row in rows))
        fills: Mapping[str, int] = {"input_ids": 0, "labels": -100, "attention_mask": 0}
        for row in rows:
            row["attention_mask"] = torch.ones_like(row["input_ids"])
        return {
            name: torch.stack(
                [
                    torch.nn.functional.pad(row[name], (0, longest - len(row[name])), value=fill)
                    for row in rows
                ]
            )
            for name, fill in fills.items()
        }

    def _arguments(self) -> Any:
        import transformers

        return transformers.TrainingArguments(
            output_dir=self._folder,
            use_cpu=True,
            per_device_train_batch_size=BATCH,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            max_steps=STEPS,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_steps=1,
        )


class _Items(torch.utils.data.Dataset[dict[str, Tensor]]):
    def __init__(self, rows: list[dict[str, Tensor]]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: int) -> dict[str, Tensor]:
        return dict(self._rows[at])
