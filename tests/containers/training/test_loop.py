"""A step that is not finite ends the training, or is skipped if that was asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("h5py")

import numpy as np
import torch

from slipway.containers.data.rows.dataset import Rows
from slipway.containers.data.rows.loader import Batch, Cursor
from slipway.containers.models.encoder import BertForPreTraining
from slipway.containers.recipes.bert_pretrain.data import BertBatches, inputs_of
from slipway.containers.training.devices import open_device
from slipway.containers.training.engine import Engine, build_engine
from slipway.containers.training.loop import MOST_SCALED, MOST_SKIPPED, Loop
from slipway.containers.training.report import NotFinite, StepProfiler, StepReport
from slipway.containers.training.saving import Saving, ShutdownWatch
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.task import StepBatch
from tests.containers.training.held_state import held, taken
from tests.containers.training.tiny_bert import ALONE, tiny_parts

pytestmark = pytest.mark.usefixtures("own_sigterm")


def test_a_loss_that_is_not_finite_ends_the_training_before_a_weight_moves() -> None:
    loop, model, _ = build_loop({"on_nan": "stop"})
    before = [parameter.clone() for parameter in model.parameters()]
    _poison(model)
    with pytest.raises(NotFinite, match="the loss is nan at step 1"):
        loop.run(iter([one_batch()]), 0)
    assert all(map(torch.equal, before, model.parameters()))


def test_a_step_that_is_not_finite_is_left_out_where_that_was_asked_for() -> None:
    loop, model, said = build_loop({"on_nan": "skip"})
    before = [parameter.clone() for parameter in model.parameters()]
    restore = _poison(model)

    def batches() -> object:
        yield one_batch()
        assert all(map(torch.equal, before, model.parameters()))
        restore()
        yield one_batch()

    loop.run(batches(), 0)  # type: ignore[arg-type]  # a generator is an iterator
    assert any("skipped step 1:" in line for line in said)
    assert not all(map(torch.equal, before, model.parameters()))
    assert all(bool(parameter.isfinite().all()) for parameter in model.parameters())


def test_a_training_that_leaves_out_every_step_ends() -> None:
    loop, model, said = build_loop({"on_nan": "skip", "steps": "50"})
    _poison(model)
    with pytest.raises(NotFinite, match=f"at step {MOST_SKIPPED + 1}"):
        loop.run(iter([one_batch() for _ in range(50)]), 0)
    assert sum("skipped step" in line for line in said) == MOST_SKIPPED


@pytest.mark.parametrize("engine", ["plain", "native"])
def test_a_training_that_left_out_steps_resumes_to_the_same_bits(engine: str) -> None:
    """Adam corrects its moments by the steps that it took, not by those of the schedule."""
    settings = {
        "on_nan": "skip",
        "steps": "9",
        "engine": engine,
        "optimizer": "adamw",
        "learning_rate": "0.01",
    }
    loop, model, _ = build_loop(settings)
    restore = _poison(model)
    loop.step(0, one_batch())
    restore()
    loop.step(1, one_batch())
    resumed, other, _ = build_loop(settings)
    resumed.engine.restore(held(taken(loop.engine.pieces())), 2)
    for each in (loop, resumed):
        each.step(2, one_batch())
    assert all(map(torch.equal, model.parameters(), other.parameters()))


class OverflowingEngine:
    """Stand in for an fp16 engine whose gradients overflow until the scale is small enough."""

    def __init__(self, engine: Engine, fits_at: float) -> None:
        self._engine, self._fits_at = engine, fits_at
        self.loss_scale = 2.0**16

    def step(self, rate: float) -> float:
        if self.loss_scale <= self._fits_at:
            return self._engine.step(rate)
        self.loss_scale /= 2
        return math.inf

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)


def test_an_overflow_in_fp16_leaves_the_step_out_and_goes_on_with_a_lower_scale() -> None:
    loop, _, said = build_loop({"on_nan": "stop", "steps": "6"})
    loop.engine = OverflowingEngine(loop.engine, 2.0**14)  # type: ignore[assignment]  # hands on all but these
    loop.run(iter([one_batch() for _ in range(6)]), 0)
    assert said == [
        f"skipped step {step}: the gradient norm is inf with a loss scale that is now {scale}"
        for step, scale in ((1, 32768), (2, 16384))
    ]


def test_a_loss_scale_that_falls_for_ever_ends_the_training() -> None:
    loop, _, said = build_loop({"on_nan": "stop", "steps": "50"})
    loop.engine = OverflowingEngine(loop.engine, 0.0)  # type: ignore[assignment]  # hands on all but these
    with pytest.raises(NotFinite, match=f"{MOST_SCALED + 1} times in a row, at step {MOST_SCALED + 1}"):
        loop.run(iter([one_batch() for _ in range(50)]), 0)
    assert len(said) == MOST_SCALED


def test_what_fits_no_mask_still_gets_one_where_the_device_traces_its_graph() -> None:
    """Otherwise two graphs would be compiled, depending on the rows."""
    device = open_device(ALONE, "cpu", "fp32")
    assert inputs_of(_rows(), device)["mask"] is None
    assert inputs_of(_rows(), replace(device, traces=True))["mask"] is not None


def test_a_profile_asks_for_nothing_that_the_oldest_pytorch_of_an_image_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Gaudi's image has PyTorch 2.4.0, whose `profile` takes only these useful arguments."""
    real = torch.profiler.profile

    def of_2_4(
        *,
        activities: Iterable[torch.profiler.ProfilerActivity],
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
    ) -> torch.profiler.profile:
        return real(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
        )

    monkeypatch.setattr(torch.profiler, "profile", of_2_4)
    device = open_device(ALONE, "cpu", "fp32")
    said: list[str] = []
    profiler = StepProfiler(first=1, last=1, folder=tmp_path, rank=0, device=device, say=said.append)
    profiler.before(1)
    profiler.after(1)
    (path,) = tmp_path.glob("*.trace.json.gz")
    assert str(path) in said[0]


def build_loop(settings: dict[str, str]) -> tuple[Loop, BertForPreTraining, list[str]]:
    parts, model = tiny_parts(settings=settings)
    said: list[str] = []
    reports: list[StepReport] = []
    engine, ending = build_engine(parts), ShutdownWatch(ALONE)
    steps = int({"steps": "2", **settings}["steps"])
    loop = Loop(
        parts=parts,
        engine=engine,
        schedule=Schedule(peak=0.01, steps=steps, warmup_share=0.0, decay_power=1.0),
        ending=ending,
        saving=Saving(
            engine=engine,
            checkpoints=None,
            ending=ending,
            every=1,
            minutes=10.0,
            steps=steps,
            place=parts.device.place,
            say=said.append,
        ),
        tell=reports.append,
        say=said.append,
        after=lambda _: None,
    )
    return loop, model, said


def _poison(model: BertForPreTraining) -> Callable[[], None]:
    handle = model.pooler.register_forward_hook(lambda module, given, found: found * math.nan)
    remove: Callable[[], None] = handle.remove
    return remove


def one_batch() -> StepBatch:
    plan = tiny_parts()[0].plan
    batches = BertBatches(plan=plan, reader=0, seed=1, device=open_device(ALONE, "cpu", "fp32"))
    return batches.step_batch(0, Batch(_rows(), Cursor(dataset="test", seed=1)))


def _rows() -> Rows:
    draw = np.random.default_rng(1).integers
    return {
        "input_ids": draw(1, 50, (2, 8), dtype=np.int32),
        "segment_ids": np.zeros((2, 8), np.int8),
        "input_mask": np.ones((2, 8), np.int8),
        "masked_lm_positions": np.array([[1, 3], [2, 0]], np.int32),
        "masked_lm_ids": np.array([[5, 6], [7, 0]], np.int32),
        "next_sentence_labels": np.array([0, 1], np.int8),
    }
