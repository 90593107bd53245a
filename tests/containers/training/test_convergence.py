"""Every optimizer learns what there is to learn, with the schedule of the recipe that trains with it.

Each row of the language has one topic, and each topic has eight equally likely words: a model that ignores
the context has a loss of ln 40 for each word, one that finds the topic ln 8, and none can have less.
"""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from slipway.containers.models.encoder import BertForPreTraining
from slipway.containers.models.shapes import EncoderShape
from slipway.containers.recipes.bert_pretrain.config import BY_SIZE, decode
from slipway.containers.recipes.bert_pretrain.model import BertTask
from slipway.containers.training.engine import EngineParts, StepWatch
from slipway.containers.training.engines.gradients import DataParallel
from slipway.containers.training.layout import BatchPlan, Layout
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.task import Inputs, MicroBatch
from tests.containers.training.engines.native.trainings import PROCESSOR

TOPICS, WORDS_PER_TOPIC, ROW_TOKENS, ROWS, PREDICTIONS = 5, 8, 16, 32, 5
MASK, FIRST_WORD = 1, 2
BOUND, WITHOUT_CONTEXT = math.log(WORDS_PER_TOPIC), math.log(TOPICS * WORDS_PER_TOPIC)
STEPS = 200
SHAPE = EncoderShape(
    layers=2,
    hidden=64,
    heads=4,
    intermediate=256,
    vocabulary=FIRST_WORD + TOPICS * WORDS_PER_TOPIC,
    positions=ROW_TOKENS,
    dropout=0.0,
    attention_dropout=0.0,
)


def rows(generator: torch.Generator) -> dict[str, Tensor | None]:
    topics = torch.randint(TOPICS, (ROWS, 1), generator=generator)
    drawn = torch.randint(WORDS_PER_TOPIC, (ROWS, ROW_TOKENS), generator=generator)
    words = FIRST_WORD + topics * WORDS_PER_TOPIC + drawn
    places = torch.rand(ROWS, ROW_TOKENS, generator=generator).topk(PREDICTIONS).indices
    return {
        "words": words.scatter(1, places, MASK),
        "segments": torch.zeros_like(words),
        "mask": None,
        "positions": places,
        "labels": words.gather(1, places),
        "follows": torch.zeros(ROWS, dtype=torch.int64),
    }


def schedule(size: str, peak: float) -> Schedule:
    """Shape the rate as the size's recipe does; the peak is this small model's own."""
    shape = BY_SIZE[size]
    return Schedule(
        peak=peak,
        steps=STEPS,
        warmup_share=float(shape["warmup_share"]),
        constant_share=float(shape.get("constant_share", "0")),
        decay=shape.get("schedule", "habana"),
        decay_power=float(shape.get("decay_power", "1")),
    )


def loss_after_training(optimizer: str, rates: Schedule) -> float:
    """Train, and return the mean loss of a masked word in rows that were not trained on."""
    torch.manual_seed(7)
    trained = DataParallel(
        EngineParts(
            config=decode({"optimizer": optimizer, "size": "tiny", "zero": "0", "learning_rate": "0.001"}),
            task=BertTask(),
            model=BertForPreTraining(SHAPE),
            device=PROCESSOR,
            layout=Layout(),
            rank=0,
            plan=BatchPlan(micro_batch=ROWS, accumulation_steps=1, readers=1),
            watch=StepWatch(),
        )
    )
    generator = torch.Generator().manual_seed(11)
    for step in range(STEPS):
        inputs: Inputs = rows(generator)
        trained.accumulate([MicroBatch(inputs=inputs, seed=step, weight=1.0)])
        trained.step(rates.rate(step))
    losses = [trained.evaluate(rows(generator)) for _ in range(10)]
    return float(torch.stack(losses)[:, BertTask.metrics.index("masked_words")].mean())


@pytest.mark.parametrize(
    ("optimizer", "size", "peak"), [("adamw", "base", 3e-3), ("lamb", "large", 3e-2), ("lans", "1.5b", 3e-2)]
)
def test_each_optimizer_learns_past_what_words_alone_tell(optimizer: str, size: str, peak: float) -> None:
    assert BY_SIZE[size]["optimizer"] == optimizer
    loss = loss_after_training(optimizer, schedule(size, peak))
    assert BOUND - 0.05 < loss < BOUND + 0.1


def test_a_rate_belongs_to_its_optimizer() -> None:
    assert loss_after_training("adamw", schedule("1.5b", 3e-2)) > WITHOUT_CONTEXT - 0.1
