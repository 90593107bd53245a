"""Measure checkpoints of a 100 MB model with Adam's moments: how long training waits, and saves take.

Needs the training extra: scripts/bench checkpoints. The kinds of saves take turns on the same folder.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import torch
from torch.distributed import checkpoint as library

from scripts.benchmark_rows import Row, medians, seconds_of, take_turns
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Training
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.training.state import (
    MOMENTS,
    WEIGHTS,
    HostCopy,
    SavedState,
    TensorPiece,
    encode,
)

LAYERS, SIDE = 24, 1024  # 96 MiB of weights in fp32
SAVES = 7
KINDS = (WEIGHTS, *MOMENTS)


def checkpoints() -> Iterator[Row]:
    torch.set_num_threads(1)
    for measure in (_stall, _distributed_save, _distributed_restore):
        with tempfile.TemporaryDirectory() as folder:
            yield measure(Path(folder))


def _state() -> list[TensorPiece]:
    shape = (SIDE, SIDE)
    return [
        TensorPiece.whole(kind, f"layers.{layer}.weight", torch.full(shape, float(layer)))
        for kind in KINDS
        for layer in range(LAYERS)
    ]


def _opened(folder: Path) -> Checkpoints:
    return Checkpoints(
        CheckpointFolder(folder), Training(job="bench", run="bench", attempt=1), say=lambda _: None
    )


def _stall(folder: Path) -> Row:
    """Save in turns in the background and while training waits; the first of each is a warm-up."""
    state, snapshot = _state(), HostCopy()
    steps = count()
    with _opened(folder) as opened:

        def beside() -> float:
            taken = seconds_of(lambda: opened.begin(next(steps), encode(snapshot.take(state))))
            opened.finish()
            return taken

        waiting, background = take_turns(
            lambda: seconds_of(lambda: opened.save(next(steps), encode(state))), beside, turns=SAVES
        )
    other, one = medians([waiting[1:], background[1:]])
    return Row(
        what="a save beside the training, 300 MB",
        measured=f"training waits {one * 1000:.0f} ms",
        beside=f"a save that it waits for {other * 1000:.0f} ms",
        ratio=f"ratio {one / other:.3f}; the first {background[0] / waiting[0]:.3f}",
        goal="at most 0.1",
    )


def _distributed_save(folder: Path) -> Row:
    """Save in turns with torch.distributed.checkpoint, which syncs its files and computes no digests."""
    state, steps = _state(), count()

    def save() -> None:
        shutil.rmtree(folder / "theirs", ignore_errors=True)
        library.save(_named(state), checkpoint_id=folder / "theirs", no_dist=True)

    with _opened(folder / "ours") as opened:
        taken = take_turns(
            lambda: seconds_of(lambda: opened.save(next(steps), encode(state))),
            lambda: seconds_of(save),
            turns=SAVES,
            uncounted=1,
        )
    return _beside_library("save, with digests, 300 MB", taken)


def _distributed_restore(folder: Path) -> Row:
    """Restore in turns with torch.distributed.checkpoint, which does not check what it reads."""
    state = _state()
    library.save(_named(state), checkpoint_id=folder / "theirs", no_dist=True)
    with _opened(folder / "ours") as opened:
        opened.save(1, encode(state))

        def restore() -> None:
            opened.resume("required", take=lambda found: SavedState(found).copy_to(state))

        taken = take_turns(
            lambda: seconds_of(restore),
            lambda: seconds_of(
                lambda: library.load(_named(state), checkpoint_id=folder / "theirs", no_dist=True)
            ),
            turns=SAVES,
            uncounted=1,
        )
    return _beside_library("restore, every byte checked, 300 MB", taken)


def _named(state: Sequence[TensorPiece]) -> dict[str, torch.Tensor]:
    return {f"{piece.kind}/{piece.parameter}": piece.data for piece in state}


def _beside_library(what: str, taken: Sequence[Sequence[float]]) -> Row:
    ours, theirs = medians(taken)
    ratios = [their / our for our, their in zip(*taken, strict=True)]
    return Row(
        what=what,
        measured=f"{ours:.2f} s",
        beside=f"torch.distributed.checkpoint {theirs:.2f} s",
        ratio=f"ratio {theirs / ours:.2f}, by turn {min(ratios):.2f} to {max(ratios):.2f}",
        goal="at least 1",
    )
