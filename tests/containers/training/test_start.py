"""A second phase begins with the first one's weights and moments, from its newest good checkpoint."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from slipway.containers.models.shapes import EncoderShape
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Training
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.engine import Engine, build_engine
from slipway.containers.training.start import Trained, begin, shapes_of
from slipway.containers.training.state import MOMENTS, ForeignTensors, TensorPiece, encode
from tests.containers.training.tiny_bert import ALONE, SHAPE, tiny_parts


def an_engine(shape: EncoderShape = SHAPE) -> tuple[Engine, dict[str, tuple[int, ...]]]:
    parts, model = tiny_parts(shape)
    return build_engine(parts), dict(shapes_of(model))


def test_an_engine_whose_packages_are_missing_is_refused_by_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "slipway.containers.training.engines.gradients", None)
    with pytest.raises(Refusal, match=r"engine plain needs the package .*; install .* in what ranks run in"):
        an_engine()


def opened(folder: Path) -> Checkpoints:
    training = Training(job="bert", run="r1", attempt=1)
    return Checkpoints(CheckpointFolder(folder), training, say=lambda _: None)


def first_phase(folder: Path, *steps: int) -> dict[int, list[TensorPiece]]:
    """Save other weights and moments at each step; return them."""
    saved = {}
    with opened(folder) as checkpoints:
        for step in steps:
            engine, _ = an_engine()
            held = [replace(piece, data=torch.rand(piece.box.shape)) for piece in engine.pieces()]
            checkpoints.save(step, encode(held))
            saved[step] = held
    return saved


def second_phase(folder: Path, shape: EncoderShape = SHAPE) -> Engine:
    engine, shapes = an_engine(shape)
    with opened(folder / "second") as checkpoints:
        contract = replace(ALONE, checkpoints=str(folder / "second"))
        trained = Trained(contract=contract, engine=engine, checkpoints=checkpoints, steps=2)
        assert begin(trained, shapes, "auto", "first").step == 0
    return engine


def test_a_second_phase_keeps_weights_and_moments_and_passes_over_a_damaged_checkpoint(
    tmp_path: Path,
) -> None:
    saved = first_phase(tmp_path / "first", 1, 2)
    damaged = tmp_path / "first" / "step-0000000002" / "rank-00000.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x7f")
    begun = {(piece.kind, piece.parameter): piece.data for piece in second_phase(tmp_path).pieces()}
    assert {kind for kind, _ in begun} == {"weights", *MOMENTS}
    for piece in saved[1]:
        assert torch.equal(begun[piece.kind, piece.parameter], piece.data), piece.parameter


def test_a_first_phase_of_another_model_is_refused_by_each_difference(tmp_path: Path) -> None:
    first_phase(tmp_path / "first", 1)
    with pytest.raises(ForeignTensors, match=r"saved 50 × 16, now 60 × 16"):
        second_phase(tmp_path, replace(SHAPE, vocabulary=60))
