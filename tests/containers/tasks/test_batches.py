"""A user's batches are shared by rows, so that all ranks together train on each row once."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import itertools
import random
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.tasks.batches import LoadedBatches, RowShares, UserTask, flat, part_of
from slipway.containers.tasks.start import beginning_of, first_batch, refuse_other_beginnings, with_layers
from slipway.containers.training.devices import open_device
from slipway.containers.training.layout import Layout
from slipway.containers.training.start import Beginning
from slipway.containers.training.task import StepBatch
from tests.containers.tasks import own_code

DEVICE = open_device(read_contract({}), "cpu", "fp32")


def shares(layout: Layout, reader: int, micro_batch: int | None = None, stages: int = 1) -> RowShares:
    return RowShares(layout=layout, reader=reader, stages=stages, micro_batch=micro_batch)


def batches(cut: RowShares, first: int, count: int) -> list[StepBatch]:
    loaded = LoadedBatches(load=own_code.points, cut=cut, seed=3, device=DEVICE)
    with loaded.open(Beginning(step=first)) as opened:
        return list(itertools.islice(opened, count))


@pytest.mark.parametrize("rows", [1, 2, 5, 8])
@pytest.mark.parametrize("micro_batch", [None, 1, 3])
def test_every_row_counts_once_however_many_read(rows: int, micro_batch: int | None) -> None:
    counted = [0.0] * rows
    for reader in range(3):
        for part, weight in shares(Layout(data=3), reader, micro_batch).shares(rows):
            for row in range(rows)[part]:
                counted[row] += weight / len(range(rows)[part]) / 3
    assert counted == pytest.approx([1 / rows] * rows)


def test_a_pipeline_gets_micro_batches_of_one_size() -> None:
    cut = shares(Layout(pipeline=2), 0, stages=4)
    assert [part for part, _ in cut.shares(8)] == [slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 8)]
    with pytest.raises(Refusal, match="7 rows cannot be cut evenly"):
        cut.pieces(7)


def test_a_training_goes_on_at_its_data_position_in_any_epoch() -> None:
    whole = batches(shares(Layout(), 0), 0, 10)  # an epoch has four
    rest = batches(shares(Layout(), 0), 6, 4)
    for one, other in zip(whole[6:], rest, strict=True):
        assert torch.equal(one.micro_batches[0].inputs["inputs"], other.micro_batches[0].inputs["inputs"])
        assert one.cursor == other.cursor
    assert not torch.equal(
        whole[0].micro_batches[0].inputs["inputs"],
        whole[4].micro_batches[0].inputs["inputs"],
    )


def test_a_dataloader_with_a_generator_of_its_own_goes_on_in_the_order_of_its_epoch() -> None:
    def read(first: int) -> list[list[float]]:
        rows = torch.arange(8.0)[:, None]
        own = DataLoader(rows, batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(1))
        loaded = LoadedBatches(load=lambda: own, cut=shares(Layout(), 0), seed=3, device=DEVICE)
        with loaded.open(Beginning(step=first)) as opened:
            taken = itertools.islice(opened, 8 - first)
            return [each.micro_batches[0].inputs["batch"].flatten().tolist() for each in taken]  # type: ignore[union-attr]  # it is there

    whole = read(0)
    assert read(6) == whole[6:]
    assert whole[:4] != whole[4:]


def test_a_mapping_goes_to_the_model_by_names_and_whole_to_the_loss() -> None:
    class Adds(nn.Module):  # type: ignore[misc]  # torch counts as untyped
        def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
            return one + other

    tensors = flat({"one": torch.ones(2), "other": torch.ones(2)})
    task = UserTask(lambda outputs, batch: (outputs - batch["one"]).mean())
    assert task.forward(Adds(), tensors).tolist() == [1.0]
    assert part_of(tensors, "targets") is None


@pytest.mark.parametrize("batch", ["text", [1, 2], (torch.ones(2), ["a"])])
def test_a_batch_of_anything_but_tensors_is_refused(batch: object) -> None:
    with pytest.raises(Refusal, match="give tensors"):
        flat(batch)


@pytest.mark.parametrize("once", [iter, lambda batches: (each for each in batches), zip])
def test_a_loader_that_can_be_read_only_once_is_refused(once: Callable[[object], object]) -> None:
    with pytest.raises(Refusal, match="can be read only once"):
        first_batch(once([torch.ones(2, 1)]), seed=0)
    assert len(first_batch([{"one": torch.ones(2, 1)}], seed=0)) == 1


def test_a_model_whose_averages_no_checkpoint_keeps_is_refused() -> None:
    for norm in (nn.BatchNorm1d(2), nn.InstanceNorm1d(2, track_running_stats=True)):
        with pytest.raises(Refusal, match="use GroupNorm or LayerNorm"):
            with_layers(nn.Sequential(nn.Linear(2, 2), norm), Layout(), engine="plain")


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_model_that_changes_a_buffer_of_its_state_is_refused(is_kept: bool) -> None:
    class Counts(nn.Linear):  # type: ignore[misc]  # torch counts as untyped
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            self.seen.add_(len(rows))
            return super().forward(rows)

    model, task = Counts(2, 1), UserTask(lambda outputs, batch: outputs.mean())
    model.register_buffer("seen", torch.zeros(()), persistent=is_kept)
    if not is_kept:
        assert task.forward(model, flat(torch.ones(3, 2))).shape == (1,)
        return
    with pytest.raises(Refusal, match="the model changes its buffer seen, which our checkpoints do not keep"):
        task.forward(model, flat(torch.ones(3, 2)))


class Noisy:
    """Draw each batch when it is asked for, as augmentations do; `draw` tells from which generator."""

    def __init__(self, draw: Callable[[], object]) -> None:
        self._draw = draw

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.full((2, 1), float(self._draw())) for _ in range(3))  # type: ignore[arg-type]  # any number


DRAWS: Mapping[str, Callable[[], object]] = {
    "torch": lambda: torch.rand(()),
    "numpy": np.random.rand,
    "random": random.random,
}


@pytest.mark.parametrize("kind", DRAWS)
def test_ranks_that_draw_different_dropout_read_the_same_rows(kind: str) -> None:
    """Two ranks of one reader, or a training and its resumption, have drawn other numbers between batches."""

    def read(first: int, seed: int) -> list[float]:
        loaded = LoadedBatches(
            load=lambda: Noisy(DRAWS[kind]), cut=shares(Layout(), 0), seed=3, device=DEVICE
        )
        found = []
        random.seed(seed)  # as this process happened to begin
        np.random.seed(seed)
        with loaded.open(Beginning(step=first)) as opened:
            for batch in itertools.islice(opened, 5 - first):
                found.append(float(batch.micro_batches[0].inputs["batch"][0]))  # type: ignore[index]  # it is there
                DEVICE.seed(seed)
        return found

    assert read(0, 1) == read(0, 2)
    assert read(0, 1)[2:] == read(2, 3)
    assert len(set(read(0, 1))) == 5


@pytest.mark.parametrize("differing", ["model", "first batch", "nothing"])
def test_ranks_that_begin_with_other_weights_or_rows_are_refused(differing: str) -> None:
    def told(rank: int) -> dict[str, Json]:
        model = nn.Linear(2, 2)
        nn.init.constant_(model.weight, float(rank * (differing == "model")))
        nn.init.zeros_(model.bias)
        return beginning_of(model, {"batch": torch.full((2, 2), rank * (differing == "first batch"))})

    two = Collective(rank=0, world=2, gather=lambda own: [own, told(1)])
    if differing == "nothing":
        refuse_other_beginnings(told(0), two)
        return
    with pytest.raises(Refusal, match=f"rank 1 begins with another {differing} than rank 0"):
        refuse_other_beginnings(told(0), two)
