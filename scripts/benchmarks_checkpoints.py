"""Measure checkpoints of a 100 MB model with Adam's moments: how long training waits, and for what memory.

Needs the training extra: scripts/bench checkpoints. Each kind of save runs in turn, on the same folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import torch

from scripts.benchmark_rows import Row, medians, output_of, seconds_of, take_turns
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Training
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.training.state import (
    MOMENTS,
    WEIGHTS,
    HostCopy,
    SavedState,
    TensorPiece,
    WantedBox,
    encode,
)

LAYERS, SIDE = 24, 1024  # 96 MiB of weights in fp32
SAVES = 7
KINDS = (WEIGHTS, *MOMENTS)


def checkpoints() -> list[Row]:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = [_stall(Path(folder) / "stall"), _library(Path(folder) / "library")]
    return [*rows, *(_peak(kind, goal) for kind, goal in PEAKS)]


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
    """Save alternately in the background and while training waits; the first of each warms up."""
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


def _library(folder: Path) -> Row:
    """Write the same with the safetensors library, which tells no digest: that is a second reading."""
    from safetensors.torch import save_file

    state = _state()
    named = {f"{piece.kind}/{piece.parameter}": piece.data for piece in state}
    steps = count()

    def write() -> None:
        save_file(named, folder / "theirs")
        with (folder / "theirs").open("rb") as file:
            hashlib.file_digest(file, "sha256")
            os.fsync(file.fileno())

    with _opened(folder / "ours") as opened:
        taken = take_turns(
            lambda: seconds_of(lambda: opened.save(next(steps), encode(state))),
            lambda: seconds_of(write),
            turns=SAVES - 1,
            uncounted=1,
        )
    one, other = medians(taken)
    return Row(
        what="write, hash and sync 300 MB",
        measured=f"{one:.2f} s",
        beside=f"safetensors.save_file, then sha256 {other:.2f} s",
        ratio=f"ratio {other / one:.2f}",
        goal="at least 0.8: it has one digest, ours one a piece",
    )


def _peak(kind: str, goal: str) -> Row:
    """Measure in a process of its own: the kernel keeps the highest mark."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "load":
            _grown("save", folder)
        told = _grown(kind, folder)
    return Row(what=f"memory beside the state: {kind}", measured=f"{told} MB", beside="", goal=goal)


def _grown(kind: str, folder: str) -> str:
    return output_of([sys.executable, "-m", "scripts.benchmarks_checkpoints", kind, folder]).strip()


def measure_growth(kind: str, folder: Path) -> int:
    """Return by how many megabytes this process grows beyond its state."""
    torch.set_num_threads(1)
    state = _state()
    with _opened(folder) as opened:
        before = _highest()
        {"save": _save, "background save": _save_beside, "load": _load}[kind](opened, state)
        return (_highest() - before) // 1024


def _save(opened: Checkpoints, state: Sequence[TensorPiece]) -> None:
    opened.save(1, encode(state))


def _save_beside(opened: Checkpoints, state: Sequence[TensorPiece]) -> None:
    snapshot = HostCopy()
    for step in (1, 2):
        opened.begin(step, encode(snapshot.take(state)))
        opened.finish()


def _load(opened: Checkpoints, state: Sequence[TensorPiece]) -> None:
    saved = SavedState(opened.newest_of(opened.storage))
    saved.copy_to((WantedBox(piece.kind, piece.parameter, piece.box), piece.data) for piece in state)


def _highest() -> int:
    """Return the highest mark in kB. getrusage's begins with that of the process which started this one."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])  # type: ignore[index]  # Linux writes it


PEAKS = (("save", "under 30"), ("background save", "300, its copy"), ("load", "under 100"))

if __name__ == "__main__":
    print(measure_growth(sys.argv[1], Path(sys.argv[2])))
