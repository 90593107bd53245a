"""The layouts that are proved equal to one process: each trains and saves, and resumes from the others.

python -m tests.containers.training.engines.native.layouts FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import distributed

from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints
from slipway.containers.runtime.checkpoint.checkpoints import Training as Identity
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.checkpoint.resume import Resumed
from slipway.containers.runtime.checkpoint.tensors import torch_collective
from slipway.containers.runtime.checkpoint.verify import read_manifest
from slipway.containers.training.engines.native.activations import Keeping
from slipway.containers.training.engines.native.settings import NativeSettings
from slipway.containers.training.layout import Layout
from slipway.containers.training.state import SavedState, encode
from tests.containers.training.engines.native.forks import fork_ranks
from tests.containers.training.engines.native.trainings import SAVED_AFTER, STEPS, Training, Wholes

KINDS = ("decoder", "encoder")
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
WORLDS = (1, 2, 4, 8)
Told = Mapping[str, list[float]]


def before(name: str) -> str:
    """Return the layout from whose checkpoint this one trains on: together they are a ring."""
    return list(CASES)[list(CASES).index(name) - 1]


def sources(kind: str, name: str) -> list[str]:
    """Return the layouts whose checkpoints one restores: a decoder's all, and last the one before."""
    others = [source for source in CASES if source != before(name)] if kind == "decoder" else []
    return [*others, before(name)]


def train_and_save(folder: Path, kind: str, name: str, rank: int) -> Told:
    """Train; save half-way, in files and in memory."""
    training = Training.of(kind, CASES[name].layout, rank, CASES[name].settings)
    told = training.steps(range(SAVED_AFTER))
    wholes = Wholes.of(training.engine)
    if rank == 0:
        torch.save(wholes.tensors, folder / f"{kind} {name}.pt")
    identity = Identity(job="layouts", run=kind, attempt=1, topology=CASES[name].layout.degrees)
    storage = CheckpointFolder(folder / f"{kind} {name}")
    with Checkpoints(storage, identity, collective=torch_collective(), say=_say_nothing) as checkpoints:
        checkpoints.save(SAVED_AFTER, encode(training.engine.pieces()))
    return {f"{kind} {name}": told + training.steps(range(SAVED_AFTER, STEPS))}


def resume(folder: Path, kind: str, name: str, rank: int) -> Told:
    """Restore what each layout has saved, exactly; train on from the one before."""
    training = Training.of(kind, CASES[name].layout, rank, CASES[name].settings)
    told: dict[str, list[float]] = {}
    for source in sources(kind, name):
        storage = CheckpointFolder(folder / f"{kind} {source}")
        found = Resumed(storage=storage, manifest=read_manifest(storage, SAVED_AFTER), rejected=frozenset())
        training.engine.restore(SavedState(found), SAVED_AFTER)
        wholes = Wholes(torch.load(folder / f"{kind} {source}.pt"))
        told[f"{kind} {source} in {name}"] = [_sum(wholes.differing(training.engine))]
    told[f"{kind} {before(name)} -> {name}"] = training.steps(range(SAVED_AFTER, STEPS))
    return told


def _sum(number: int) -> float:
    """Add up a number of all ranks."""
    found = torch.tensor(float(number))
    if distributed.is_initialized():
        distributed.all_reduce(found)
    return float(found)


def _say_nothing(line: str) -> None:
    del line


def _go(work: Callable[[Path, str, str, int], Told], folder: Path, world: int, rank: int) -> None:
    told: dict[str, list[float]] = {}
    for kind in KINDS:
        for name, case in CASES.items():
            if case.layout.world == world:
                told |= work(folder, kind, name, rank)
    if rank == 0:
        (folder / f"{work.__name__} {world}.json").write_text(json.dumps(told))


def main(folder: Path) -> None:
    for work in (train_and_save, resume):
        for world in WORLDS:
            fork_ranks(world, partial(_go, work, folder, world))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
