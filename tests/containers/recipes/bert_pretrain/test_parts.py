"""Pieces of tensors find their way whatever the cut, gradients add up, a bad step is left out."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("h5py")

import numpy as np
import torch

from containers.data.dataset import Rows
from containers.data.loader import Batch, Cursor
from containers.recipes.bert_pretrain.batch import plan_batch
from containers.recipes.bert_pretrain.config import decode
from containers.recipes.bert_pretrain.devices import open_device
from containers.recipes.bert_pretrain.ending import Ending
from containers.recipes.bert_pretrain.engine import EngineParts, build_engine
from containers.recipes.bert_pretrain.gradients import GradientSum
from containers.recipes.bert_pretrain.loop import MOST_SKIPPED, Loop, NotFinite, StepReport
from containers.recipes.bert_pretrain.model import BertForPreTraining, BertShape
from containers.recipes.bert_pretrain.optimizers import Schedule
from containers.recipes.bert_pretrain.state import ForeignTensors, Piece, encode, read_pieces
from containers.runtime.checkpoint import Checkpoints, Training
from containers.runtime.contract import LaunchContract

CONTRACT = LaunchContract(
    job="test",
    run="test",
    attempt=1,
    rank=0,
    local_rank=0,
    local_world=1,
    world=1,
    node=0,
    nodes=1,
    main_address="127.0.0.1",
    main_port=1,
)
SHAPE = BertShape(layers=1, hidden=16, heads=2, vocabulary=50, dropout=0.1)


@pytest.fixture(autouse=True)
def _sigterm() -> Iterator[None]:
    """A training listens to it; the test session should not."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@given(
    size=st.integers(1, 60),
    saved=st.lists(st.integers(0, 60), max_size=6),
    wanted=st.lists(st.integers(0, 60), max_size=6),
)
def test_pieces_cut_one_way_fill_stretches_cut_another(
    size: int, saved: list[int], wanted: list[int]
) -> None:
    whole = torch.arange(size, dtype=torch.float32)
    pieces = [
        Piece(kind="weights", parameter="p", start=low, data=whole[low:high])
        for low, high in _cuts(size, saved)
    ]
    for low, high in _cuts(size, wanted):
        target = torch.full((high - low,), -1.0)
        for piece in pieces:
            piece.copy_to(target, low)
        assert torch.equal(target, whole[low:high])


def test_a_checkpoint_that_lacks_a_part_of_a_tensor_is_refused(tmp_path: Path) -> None:
    pieces = [
        Piece(kind=kind, parameter="p", start=0, data=torch.zeros(9 if kind == "exp_avg" else 10))
        for kind in ("weights", "exp_avg", "exp_avg_sq")
    ]
    with Checkpoints(tmp_path, Training(job="test", run="test", attempt=1)) as checkpoints:
        checkpoints.save(1, encode(pieces))
        found = checkpoints.resume()
        assert found is not None
        with pytest.raises(ForeignTensors, match="9 of 10 elements of exp_avg/p"):
            list(read_pieces(found, {"p": 10}))
        with pytest.raises(ForeignTensors, match="which this model does not have"):
            list(read_pieces(found, {"q": 10}))


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_gradients_add_up_over_micro_batches_in_fp32(precision: torch.dtype) -> None:
    layer, idle = torch.nn.Linear(4, 3).to(precision), torch.nn.Linear(2, 2)
    sums = GradientSum([*layer.parameters(), *idle.parameters()], world=1)
    for _ in range(2):  # what the first step left is not in the second's
        rows = [torch.randn(2, 4).to(precision) for _ in range(3)]
        expected = torch.zeros(3, 4)
        for row in rows:
            expected += torch.autograd.grad(_loss(layer, row), layer.weight)[0].float()
            _loss(layer, row).backward()
        sums.views[idle.weight].fill_(7)
        sums.finish()
        torch.testing.assert_close(sums.views[layer.weight], expected)
        assert not sums.views[idle.weight].any()
        assert layer.weight.grad is None


def _loss(layer: torch.nn.Module, row: torch.Tensor) -> torch.Tensor:
    squared: torch.Tensor = layer(row).float().square().sum()
    return squared


def test_a_loss_that_is_not_finite_ends_the_training_before_a_weight_moves() -> None:
    loop, model, _ = _loop({"on_nan": "stop"})
    before = [parameter.clone() for parameter in model.parameters()]
    _poison(model)
    with pytest.raises(NotFinite, match="the loss is nan at step 1"):
        loop.run(iter([_batch()]), 0)
    assert all(map(torch.equal, before, model.parameters()))


def test_a_step_that_is_not_finite_is_left_out_where_that_was_asked_for() -> None:
    loop, model, said = _loop({"on_nan": "skip"})
    before = [parameter.clone() for parameter in model.parameters()]
    restore = _poison(model)

    def batches() -> object:
        yield _batch()
        assert all(map(torch.equal, before, model.parameters()))
        restore()
        yield _batch()

    loop.run(batches(), 0)  # type: ignore[arg-type]  # a generator is an iterator
    assert any("step 1 is left out" in line for line in said)
    assert not all(map(torch.equal, before, model.parameters()))
    assert all(bool(parameter.isfinite().all()) for parameter in model.parameters())


def test_a_training_that_leaves_out_every_step_ends() -> None:
    loop, model, said = _loop({"on_nan": "skip", "steps": "50"})
    _poison(model)
    with pytest.raises(NotFinite, match=f"at step {MOST_SKIPPED + 1}"):
        loop.run(iter([_batch() for _ in range(50)]), 0)
    assert sum("is left out" in line for line in said) == MOST_SKIPPED


def test_a_step_near_the_deadline_ends_the_training() -> None:
    contract = SimpleNamespace(deadline=1.0)
    ending = Ending(contract)  # type: ignore[arg-type]  # it reads one field
    assert ending.is_near
    assert not ending.has_time_to_save()
    assert not Ending(CONTRACT).is_near
    assert Ending(CONTRACT).seconds_left() == math.inf


def _loop(settings: dict[str, str]) -> tuple[Loop, BertForPreTraining, list[str]]:
    config = decode(
        {"zero": "0", "precision": "fp32", "device": "cpu", "steps": "2", "micro_batch": "2", **settings}
    )
    plan, device = plan_batch(config, 1), open_device(CONTRACT, "cpu", "fp32")
    model = BertForPreTraining(SHAPE)
    said: list[str] = []
    reports: list[StepReport] = []
    loop = Loop(
        config=config,
        plan=plan,
        rank=0,
        device=device,
        engine=build_engine(EngineParts(config=config, model=model, device=device, plan=plan, rank=0)),
        schedule=Schedule(peak=0.01, steps=2, warmup_share=0.0, decay_power=1.0),
        ending=Ending(CONTRACT),
        checkpoints=None,
        tell=reports.append,
        say=said.append,
    )
    return loop, model, said


def _poison(model: BertForPreTraining) -> Callable[[], None]:
    handle = model.pooler.register_forward_hook(lambda module, given, found: found * math.nan)
    remove: Callable[[], None] = handle.remove
    return remove


def _batch() -> Batch:
    draw = np.random.default_rng(1).integers
    rows: Rows = {
        "input_ids": draw(1, 50, (2, 8), dtype=np.int32),
        "segment_ids": np.zeros((2, 8), np.int8),
        "input_mask": np.ones((2, 8), np.int8),
        "masked_lm_positions": np.array([[1, 3], [2, 0]], np.int32),
        "masked_lm_ids": np.array([[5, 6], [7, 0]], np.int32),
        "next_sentence_labels": np.array([0, 1], np.int8),
    }
    return Batch(rows, Cursor(dataset="test", seed=1))


def _cuts(size: int, places: list[int]) -> list[tuple[int, int]]:
    edges = sorted({0, size, *(place for place in places if place < size)})
    return list(pairwise(edges))
