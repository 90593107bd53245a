"""The layouts that are proved equal to one process, and one rank that goes through many of them.

python -m tests.containers.training.engines.native.layouts RANK WORLD PORT FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import torch
from torch import distributed

from slipway.containers.training.engines.native.activations import Keeping
from slipway.containers.training.engines.native.settings import NativeSettings
from slipway.containers.training.layout import Layout
from slipway.containers.training.state import SavedState
from tests.containers.training.engines.native.trainings import SAVED_AFTER, STEPS, Saved, Training

KINDS = ("decoder", "encoder")
LARGEST_SHARED = 4  # ranks that are started beside others; eight are a test of their own
RECOMPUTING = NativeSettings(keeping=Keeping(recomputes=True))


@dataclass(frozen=True, slots=True)
class Case:
    layout: Layout
    settings: NativeSettings = field(default_factory=NativeSettings)


CASES: Mapping[str, Case] = {
    "one process": Case(Layout()),
    "tp2": Case(Layout(tensor=2), RECOMPUTING),
    "fsdp2": Case(Layout(sharded=2), RECOMPUTING),
    "dp2": Case(Layout(data=2)),
    "pp2 gpipe": Case(Layout(pipeline=2), NativeSettings(schedule="gpipe")),
    "pp2 1f1b": Case(Layout(pipeline=2), RECOMPUTING),
    "pp2 interleaved": Case(Layout(pipeline=2), NativeSettings(schedule="interleaved", stages_per_rank=2)),
    "tp2×pp2": Case(Layout(tensor=2, pipeline=2)),
    "tp2×fsdp2": Case(Layout(tensor=2, sharded=2)),
    "fsdp2×pp2": Case(Layout(sharded=2, pipeline=2), RECOMPUTING),
    "hybrid": Case(Layout(data=2, sharded=2)),
    "tp2×pp2×dp2": Case(Layout(tensor=2, pipeline=2, data=2)),
    "tp2×pp2×fsdp2": Case(Layout(tensor=2, pipeline=2, sharded=2), RECOMPUTING),
}


def named(world: int) -> list[str]:
    return [name for name, case in CASES.items() if case.layout.world == world]


def sources(kind: str, name: str) -> list[str]:
    """Return the layouts from whose checkpoints one resumes: decoders from all of as many ranks and from
    each way to cut, encoders from one other."""
    world, known = CASES[name].layout.world, list(CASES)
    if kind == "encoder":
        return [known[max(0, known.index(name) - 1)]]
    if world == 1:
        return [source for source in known if CASES[source].layout.world <= LARGEST_SHARED]
    return ["one process", *(("tp2", "pp2 interleaved") if world == LARGEST_SHARED else ()), *named(world)]


def path_of(folder: Path, kind: str, name: str) -> Path:
    return folder / f"{kind} {name}.pt"


def train_and_save(rank: int, world: int, folder: Path) -> dict[str, list[float]]:
    """Train in each layout of so many ranks; save half-way; return losses and norms by training."""
    told = {}
    for kind in KINDS:
        for name in named(world):
            training = Training.of(kind, CASES[name].layout, rank, CASES[name].settings)
            told[f"{kind} {name}"] = training.steps(range(SAVED_AFTER))
            saved = Saved.of(training.engine)
            if rank == 0:
                torch.save(saved.tensors, path_of(folder, kind, name))
            told[f"{kind} {name}"] += training.steps(range(SAVED_AFTER, STEPS))
    return told


def resume_all(rank: int, world: int, folder: Path) -> dict[str, list[float]]:
    """Resume each layout of so many ranks from each that was saved; return the rest of the training."""
    told = {}
    for kind in KINDS:
        for name in named(world):
            training = Training.of(kind, CASES[name].layout, rank, CASES[name].settings)
            for source in sources(kind, name):
                path = path_of(folder, kind, source)
                if path.exists():  # what eight ranks save is not there when four are tried, and the reverse
                    saved = cast(SavedState, Saved(torch.load(path)))
                    training.engine.restore(saved, SAVED_AFTER)
                    told[f"{kind} {source} -> {name}"] = training.steps(range(SAVED_AFTER, STEPS))
    return told


def main(rank: int, world: int, port: int, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    told = train_and_save(rank, world, folder)
    print("saved", flush=True)
    sys.stdin.readline()  # until the others have saved, too
    told |= resume_all(rank, world, folder)
    distributed.destroy_process_group()
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
