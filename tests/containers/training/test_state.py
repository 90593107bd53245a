"""Tensors are restored across any two cuts, and a rank reads only what it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

import torch

from slipway.containers.runtime.checkpoint import storage as pieces
from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Training
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.checkpoint.manifest import DamagedCheckpoint
from slipway.containers.runtime.checkpoint.storage import Stretches
from slipway.containers.training.state import ForeignTensors, SavedState, TensorPiece, encode


class CountingFolder(CheckpointFolder):
    """Count the bytes that are read of rank's files."""

    read_bytes = 0

    def read(
        self, step: int, name: str, stretches: Stretches, rooms: Sequence[memoryview] = ()
    ) -> Iterator[memoryview]:
        for part in super().read(step, name, stretches, rooms):
            self.read_bytes += len(part)
            yield part


def saved(folder: Path, held: Sequence[TensorPiece]) -> tuple[SavedState, CountingFolder]:
    storage = CountingFolder(folder)
    with Checkpoints(storage, Training(job="test", run="test", attempt=1), say=lambda _: None) as checkpoints:
        checkpoints.save(1, encode(held))
        found = checkpoints.resume("required")
    assert found is not None
    storage.read_bytes = 0
    return SavedState(found), storage


def cut(kind: str, parameter: str, whole: torch.Tensor, places: Sequence[Sequence[int]]) -> list[TensorPiece]:
    """Cut a tensor into a grid of boxes."""
    sides = zip(whole.shape, places, strict=True)
    edges = [sorted({0, side, *(at for at in own if at < side)}) for side, own in sides]
    found = []
    for place in product(*(pairwise(own) for own in edges)):
        box = Box(tuple(low for low, _ in place), tuple(high - low for low, high in place))
        found.append(TensorPiece(kind=kind, parameter=parameter, box=box, data=whole[box.slices]))
    return found


CUTS = st.lists(st.lists(st.integers(0, 8), max_size=3), min_size=3, max_size=3)


@settings(max_examples=20)
@given(
    shape=st.lists(st.integers(1, 8), max_size=3),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.uint8, torch.int64]),
    held=CUTS,
    asked=CUTS,
)
def test_boxes_cut_one_way_fill_boxes_cut_another(
    tmp_path_factory: pytest.TempPathFactory,
    shape: list[int],
    dtype: torch.dtype,
    held: list[list[int]],
    asked: list[list[int]],
) -> None:
    whole = torch.randint(0, 200, shape).to(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "CHUNK_BYTES", 24)
        state, _ = saved(tmp_path_factory.mktemp("boxes"), cut("weights", "p", whole, held[: len(shape)]))
    for wanted in cut("weights", "p", whole, asked[: len(shape)]):
        assert torch.equal(state.read("weights", "p", wanted.box), wanted.data)
    assert torch.equal(state.read("weights", "p"), whole)


def test_tensors_of_every_dtype_come_back_bit_for_bit(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    whole = {
        "f32": torch.randn(3, 5, generator=generator),
        "bf16": torch.randn(7, generator=generator).to(torch.bfloat16),
        "f16": torch.randn(3, generator=generator).half(),
        "f8": torch.randn(4, generator=generator).to(torch.float8_e4m3fn),
        "transposed": torch.arange(6).reshape(2, 3).t(),
        "scalar": torch.tensor(3, dtype=torch.int64),
        "empty": torch.empty(0, 4),
        "flags": torch.tensor([True, False]),
        "nan": torch.tensor([float("nan"), float("-inf"), -0.0]),
        "rng": torch.get_rng_state(),
    }
    state, _ = saved(tmp_path, [TensorPiece.whole("weights", name, one) for name, one in whole.items()])
    for name, one in whole.items():
        read = state.read("weights", name)
        assert (read.dtype, read.shape) == (one.dtype, one.shape)
        flat, wanted = read.contiguous().reshape(-1), one.contiguous().reshape(-1)
        assert torch.equal(flat.view(torch.uint8), wanted.view(torch.uint8)), name
    state.read("weights", "f32").add_(1)  # writable, because an optimizer changes it


@pytest.mark.parametrize(("rows", "columns"), [([16, 32, 48], []), ([], [16, 32, 48])])
def test_a_rank_of_the_same_layout_reads_its_own_bytes_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[int], columns: list[int]
) -> None:
    """Cut by rows or by columns: each of four ranks saves a quarter of the bytes."""
    monkeypatch.setattr(pieces, "CHUNK_BYTES", 1000)
    whole = torch.randn(64, 64)
    held = [
        piece
        for kind in ("weights", "exp_avg", "exp_avg_sq")
        for piece in cut(kind, "layers.0.weight", whole, [rows, columns])
    ]
    state, storage = saved(tmp_path, held)
    mine = [piece for piece in held if piece.box == held[1].box]
    read = list(state.read_each(mine))
    assert len(read) == 3
    assert all(torch.equal(one, piece.data) for one, piece in zip(read, mine, strict=True))
    assert storage.read_bytes == 3 * whole.nbytes / 4


def test_rows_of_a_large_piece_are_read_with_at_most_a_chunk_around_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "CHUNK_BYTES", 1024)
    whole = torch.randn(100, 64)
    state, storage = saved(tmp_path, [TensorPiece.whole("weights", "p", whole)])
    box = Box((30, 0), (10, 64))
    assert torch.equal(state.read("weights", "p", box), whole[30:40])
    assert storage.read_bytes <= 10 * 64 * 4 + 2 * 1024


def test_verifying_reads_every_byte_once_over_all_ranks(tmp_path: Path) -> None:
    _, storage = saved(tmp_path, [TensorPiece.whole("weights", "p", torch.randn(100, 64))])
    with Checkpoints(storage, Training(job="test", run="test", attempt=2)) as checkpoints:
        found = checkpoints.resume()
    assert found is not None
    assert storage.read_bytes == found.manifest.ranks[0].bytes


def test_a_tensor_that_ranks_saved_in_part_fails_the_save(tmp_path: Path) -> None:
    half = TensorPiece(kind="weights", parameter="p", box=Box((5,), (5,)), data=torch.zeros(5))
    with pytest.raises(Exception, match="holds 5 of 10 elements of 'weights/p'"):
        saved(tmp_path, [half])


def test_another_architecture_is_refused_with_each_differing_parameter(tmp_path: Path) -> None:
    state, _ = saved(
        tmp_path,
        [
            TensorPiece.whole("weights", "embed.weight", torch.zeros(10, 4)),
            TensorPiece.whole("weights", "same", torch.zeros(3)),
            TensorPiece.whole("weights", "old", torch.zeros(())),
        ],
    )
    state.check({"embed.weight": (10, 4), "same": (3,), "old": ()})
    with pytest.raises(ForeignTensors) as refused:
        state.check({"embed.weight": (12, 4), "same": (3,), "new": (2,)})
    for said in (
        "embed.weight: saved 10 × 4, now 12 × 4",
        "new: saved absent, now 2",
        "old: saved one number",
    ):
        assert said in str(refused.value)
    assert "same" not in str(refused.value)
    with pytest.raises(ForeignTensors, match="holds no 'exp_avg/same'"):
        state.read("exp_avg", "same")


def test_what_changed_after_it_was_verified_is_not_given_out(tmp_path: Path) -> None:
    state, _ = saved(tmp_path, [TensorPiece.whole("weights", "p", torch.zeros(10))])
    path = tmp_path / "step-0000000001" / "rank-00000.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(DamagedCheckpoint, match="its sha256 differs"):
        state.read("weights", "p")


def test_other_programs_read_our_files(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.torch")
    whole = torch.randn(4, 6)
    saved(tmp_path, cut("weights", "p", whole, [[2], []]))
    read = library.load_file(tmp_path / "step-0000000001" / "rank-00000.safetensors")
    assert torch.equal(torch.cat([read["weights/p@0,0"], read["weights/p@2,0"]]), whole)
