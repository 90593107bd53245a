"""Measure a training step against the transformers Trainer's: same machine, model, weights, rows and losses.

Needs the training extra and transformers: scripts/bench training. Our step runs after each of
the Trainer's, in one process; the ratio is of the medians.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from scripts.benchmark_rows import Row, medians
from scripts.benchmark_trainer import ALONE, Turns, train_in_turns
from scripts.benchmarks_gpu import ROW_TOKENS, Rows, draw_rows, parts_alone
from scripts.transformers_bert import build_reference, reference_rows
from slipway.containers.models.encoder import BertForPreTraining
from slipway.containers.models.shapes import bert
from slipway.containers.recipes.bert_pretrain.config import decode, plan_batch
from slipway.containers.recipes.bert_pretrain.model import BertTask
from slipway.containers.training.devices import open_device
from slipway.containers.training.engine import build_engine
from slipway.containers.training.optimizers import BETAS, EPSILON
from slipway.containers.training.task import MicroBatch

BATCHES = (8, 32)
STEPS, WARM_UP_STEPS = 10, 2
RATE, DECAY, CLIP = 1e-4, 0.01, 1.0
MOST_APART = 1e-4  # the most that losses near 10 may differ after ten steps, by rounding
# Without dropout, since the random streams differ: so the losses can be compared.
SHAPE = replace(bert(4, 256, 4), dropout=0.0, attention_dropout=0.0)


def training() -> list[Row]:
    torch.set_num_threads(1)
    return [side_by_side(batch) for batch in BATCHES]


def side_by_side(batch: int) -> Row:
    """Compare both in fp32 on the processor, with one thread."""
    settings = {"zero": 0, "optimizer": "adamw", "weight_decay": DECAY, "clip_norm": CLIP}
    settings |= {"micro_batch": batch, "accumulation_steps": 1, "size": "tiny"}
    settings |= {"precision": "fp32", "device": "cpu"}
    config = decode({name: str(value) for name, value in settings.items()})
    batches = [draw_rows(batch, SHAPE.vocabulary, number) for number in range(STEPS + WARM_UP_STEPS)]
    torch.manual_seed(1)
    model = BertForPreTraining(SHAPE)
    reference = build_reference(model)
    device, plan = open_device(ALONE, "cpu", "fp32"), plan_batch(config, readers=1)
    engine = build_engine(parts_alone(device, config, plan, model, BertTask()))
    losses: list[float] = []

    def step() -> None:
        rows = batches[len(losses)]
        inputs: dict[str, Tensor | None] = {**rows, "mask": None if rows["mask"].all() else rows["mask"]}
        means = engine.accumulate([MicroBatch(inputs=inputs, seed=1, weight=1.0)])
        engine.step(RATE)
        losses.append(float(means[0]))

    turns = _train_reference(reference, batches, batch, step)
    apart = max(abs(ours - theirs) for ours, theirs in zip(losses, turns.losses, strict=True))
    if apart > MOST_APART:
        raise SystemExit(
            f"error: the losses are {apart:.2g} apart; what is measured is not the same training"
        )
    ours, theirs = medians([turns.ours[WARM_UP_STEPS:], turns.theirs[WARM_UP_STEPS:]])
    return Row(
        what=f"BERT 4×256 step, {batch} rows of {ROW_TOKENS}",
        measured=f"{1 / ours:.2f} steps/s",
        beside=f"Trainer {1 / theirs:.2f} steps/s",
        ratio=f"ratio {theirs / ours:.2f}",
        goal=f"at least 3; losses {apart:.0e} apart",
    )


def _train_reference(model: Any, batches: Sequence[Rows], batch: int, step: Callable[[], None]) -> Turns:
    columns = [reference_rows(rows) for rows in batches]
    items = [{name: each[name][row] for name in each} for each in columns for row in range(batch)]
    return train_in_turns(
        model,
        items,
        step,
        per_device_train_batch_size=batch,
        max_steps=len(batches),
        learning_rate=RATE,
        lr_scheduler_type="constant",
        weight_decay=DECAY,
        adam_beta1=BETAS[0],
        adam_beta2=BETAS[1],
        adam_epsilon=EPSILON,
        max_grad_norm=CLIP,
        train_sampling_strategy="sequential",
    )
