"""A training resumes with its checkpoint's values, verified while read, wherever its tensors are."""

from __future__ import annotations

from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint import storage as pieces
from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.manifest import DamagedCheckpoint
from slipway.containers.runtime.checkpoint.resume import Resumed
from slipway.containers.training import state
from slipway.containers.training.start import Trained, begin
from slipway.containers.training.state import SavedState, TensorPiece, encode
from tests.containers.training.test_start import an_engine, opened
from tests.containers.training.test_state import cut, saved
from tests.containers.training.tiny_bert import ALONE


def piece_of(name: str, data: torch.Tensor, box: Box | None = None) -> TensorPiece:
    return TensorPiece(kind="weights", parameter=name, box=box or Box.whole(data.shape), data=data)


@pytest.fixture
def small_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "CHUNK_BYTES", 64)
    monkeypatch.setattr(state, "STRETCH_BYTES", 128)


@pytest.mark.usefixtures("small_stretches")
@pytest.mark.parametrize("held", [[[], []], [[3, 7], []], [[], [2, 5]], [[4], [3]]])
@pytest.mark.parametrize("asked", [[[], []], [[2, 9], []], [[], [1, 4]]])
def test_targets_of_any_cut_are_filled_from_pieces_of_any_other(
    tmp_path: Path, held: list[list[int]], asked: list[list[int]]
) -> None:
    whole = torch.randn(11, 7)
    found, _ = saved(tmp_path, cut("weights", "p", whole, held))
    wanted = [piece.box for piece in cut("weights", "p", whole, asked)]
    targets = [piece_of("p", torch.empty(box.shape), box) for box in wanted]
    in_a_larger_one = torch.empty(11, 9)
    found.copy_to([*targets, piece_of("p", in_a_larger_one[:, :7])])
    for target in targets:
        assert torch.equal(target.data, whole[target.box.slices])
    assert torch.equal(in_a_larger_one[:, :7], whole)


@pytest.mark.usefixtures("small_stretches")
def test_targets_of_another_type_or_size_are_filled_too(tmp_path: Path) -> None:
    whole = {"w": torch.randn(40), "one": torch.tensor(3.5), "none": torch.empty(0, 4), "i": torch.arange(30)}
    found, _ = saved(tmp_path, [TensorPiece.whole("weights", name, one) for name, one in whole.items()])
    targets = {name: torch.zeros_like(one) for name, one in whole.items()}
    half = torch.zeros(40, dtype=torch.bfloat16)
    found.copy_to([*(piece_of(name, target) for name, target in targets.items()), piece_of("w", half)])
    for name, one in whole.items():
        assert torch.equal(targets[name], one), name
    assert torch.equal(half, whole["w"].bfloat16())


@pytest.mark.usefixtures("small_stretches")
def test_whole_stretches_are_read_into_the_target_s_own_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, target = torch.randn(100), torch.empty(90)
    found, _ = saved(tmp_path, [TensorPiece.whole("weights", "p", whole)])
    places: list[int] = []
    read_at = disk.read_at

    def watched(file: FileIO, start: int, room: memoryview) -> memoryview:
        places.append(np.frombuffer(room, np.uint8).ctypes.data)
        return read_at(file, start, room)

    monkeypatch.setattr(disk, "read_at", watched)
    found.copy_to([piece_of("p", target, Box((5,), (90,)))])
    assert torch.equal(target, whole[5:95])
    inside = [at for at in places if target.data_ptr() <= at < target.data_ptr() + target.nbytes]
    assert (len(places), len(inside)) == (6, 4), "the first and the last are asked for in part"


@pytest.mark.usefixtures("small_stretches")
def test_a_byte_that_is_not_what_was_saved_never_reaches_a_tensor(tmp_path: Path) -> None:
    found, _ = saved(tmp_path, [TensorPiece.whole("weights", "p", torch.ones(100))])
    path = tmp_path / "step-0000000001" / "rank-00000.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    target = torch.zeros(100)
    with pytest.raises(DamagedCheckpoint, match="its sha256 differs"):
        found.copy_to([piece_of("p", target)])
    assert set(target.tolist()) <= {0.0, 1.0}
    assert target[-1] == 0


def test_a_training_resumes_from_the_one_before_a_damaged_one_and_keeps_nothing_of_that(
    tmp_path: Path,
) -> None:
    engine, shapes = an_engine()
    held = {
        step: [replace(one, data=torch.rand(one.box.shape)) for one in engine.pieces()] for step in (1, 2)
    }
    with opened(tmp_path) as checkpoints:
        for step in held:
            checkpoints.save(step, encode(held[step]))
        damaged = tmp_path / "step-0000000002" / "rank-00000.safetensors"
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x7f")
        trained = Trained(contract=ALONE, engine=engine, checkpoints=checkpoints, steps=9)
        assert begin(trained, shapes, "auto", None).step == 1
    found = {(one.kind, one.parameter): one.data for one in engine.pieces()}
    for one in held[1]:
        assert torch.equal(found[one.kind, one.parameter], one.data), one.parameter


@pytest.mark.parametrize(("alone", "verified"), [(True, False), (False, True)])
def test_an_engine_whose_ranks_meet_to_restore_does_once_every_byte_is_verified(
    tmp_path: Path, alone: bool, verified: bool
) -> None:
    seen = []

    class Meeting:
        restores_alone = alone

        def restore(self, found: SavedState, steps: int) -> None:
            seen.append(bool(verifications))

    verifications: list[Resumed | None] = []
    engine, shapes = an_engine()
    with opened(tmp_path) as checkpoints:
        checkpoints.save(1, encode(engine.pieces()))
        resume = checkpoints.resume

        def watched(*given: Any, **options: Any) -> Resumed | None:
            verifications.append(found := resume(*given, **options))
            return found

        checkpoints.resume = watched  # type: ignore[method-assign]  # to see when it returns
        trained = Trained(contract=ALONE, engine=Meeting(), checkpoints=checkpoints, steps=9)  # type: ignore[arg-type]  # all that is asked of one
        assert begin(trained, shapes, "auto", None).step == 1
    assert seen == [verified]
