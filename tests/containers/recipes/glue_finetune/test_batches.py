"""Batches are the same for a seed, random, and hold every row once an epoch; little of them is padding."""

from __future__ import annotations

from itertools import chain

import pytest

pytest.importorskip("numpy")

import numpy as np

from slipway.containers.recipes.glue_finetune.data import Batches
from slipway.containers.training.layout import BatchPlan, dealt

ROWS = 1000


def make(world: int = 1, pool_batches: int = 1, seed: int = 1) -> Batches:
    plan = BatchPlan(micro_batch=8, accumulation_steps=4 // world, readers=world)
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


def test_little_is_padded_though_batches_are_random() -> None:
    def padded(batches: Batches) -> float:
        steps = [[np.array(rows) for rows in step] for step in epoch(batches)]
        widest = sum(int(batches.lengths[rows].max()) * len(rows) for step in steps for rows in step)
        return widest / int(batches.lengths.sum())

    assert padded(make()) < 1.25  # lengths from 10 to 127: a much wider range than any task has
    assert padded(make(pool_batches=50)) < 1.03


def test_a_batch_is_as_random_as_shuffling_makes_it() -> None:
    """If a row's length hints at its label, batches of equal lengths were measured to learn worse."""
    batches = make()
    spreads = [batches.lengths[np.concatenate(batches.micro_batches(step))].std() for step in range(30)]
    assert np.mean(spreads) > 0.9 * batches.lengths.std()


def test_every_micro_batch_is_one_rank_s_and_none_has_all_the_long_ones() -> None:
    for count, world in ((8, 4), (16, 4), (3, 2), (1, 4), (4, 1)):
        shares = [dealt(count, rank, world) for rank in range(world)]
        assert sorted(chain.from_iterable(shares)) == list(range(count))
    assert {sum(dealt(16, rank, 4)) for rank in range(4)} == {30}


def test_batches_of_one_length_come_at_any_time() -> None:
    """Sorted batches would begin with short sentences: a curriculum that nobody asked for."""
    batches = make(pool_batches=50)
    means = [
        np.mean([batches.lengths[rows].mean() for rows in batches.micro_batches(step)]) for step in range(30)
    ]
    assert abs(np.corrcoef(means, range(30))[0, 1]) < 0.5
