"""Batches are the same for a seed, hold every row once an epoch, and are of rows of like length."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

import numpy as np

from containers.recipes.bert_pretrain.batch import BatchPlan
from containers.recipes.glue_finetune.batches import Batches

ROWS = 1000


def make(world: int = 1, pool_batches: int = 50, seed: int = 1) -> Batches:
    plan = BatchPlan(micro_batch=8, accumulation_steps=4 // world, world=world)
    lengths = np.random.default_rng(0).integers(10, 128, ROWS)
    return Batches(lengths=lengths, plan=plan, pool_batches=pool_batches, seed=seed)


def epoch(batches: Batches, number: int = 0) -> list[list[list[int]]]:
    first = number * batches.per_epoch
    return [
        [rows.tolist() for rows in batches.micro_batches(step)]
        for step in range(first, first + batches.per_epoch)
    ]


def flat(steps: list[list[list[int]]]) -> list[int]:
    return [row for step in steps for rows in step for row in rows]


def test_every_row_comes_once_an_epoch() -> None:
    found = epoch(make())
    assert sorted(flat(found)) == list(range(ROWS))
    assert sorted(sum(map(len, step)) for step in found) == [ROWS % 32] + [32] * (ROWS // 32)


def test_batches_do_not_hang_on_the_number_of_ranks() -> None:
    assert epoch(make(world=1)) == epoch(make(world=2)) == epoch(make(world=4))


def test_each_epoch_and_each_seed_has_an_order_of_its_own() -> None:
    first, second, other = epoch(make()), epoch(make(), 1), epoch(make(seed=2))
    assert flat(first) != flat(second)
    assert flat(first) != flat(other)
    assert first == epoch(make())


def test_rows_of_like_length_save_at_least_a_third_of_the_padding() -> None:
    def padded(batches: Batches) -> int:
        return sum(int(batches.lengths[rows].max()) * len(rows) for step in epoch(batches) for rows in step)

    used = int(make().lengths.sum())
    assert padded(make()) < used * 1.03
    assert padded(make(pool_batches=1)) > used * 1.05


def test_batches_of_one_length_come_at_any_time() -> None:
    """Sorted batches would be short sentences first: a training would see a curriculum nobody asked for."""
    batches = make()
    means = [
        np.mean([batches.lengths[rows].mean() for rows in batches.micro_batches(step)]) for step in range(30)
    ]
    assert abs(np.corrcoef(means, range(30))[0, 1]) < 0.5
