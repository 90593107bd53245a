"""Runs the layouts that must equal one process: each trains and saves, and resumes from the others.

python -m tests.containers.training.engines.native.layouts FOLDER decoder|encoder|"tied decoder"
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path

import torch
from torch import distributed

from slipway.containers.training.engines.native.activations import Keeping
from slipway.containers.training.engines.native.engine import NativeSettings
from slipway.containers.training.layout import Layout
from tests.containers.training.engines.native.forks import fork_ranks
from tests.containers.training.engines.native.trainings import (
    CONFIG,
    SAVED_AFTER,
    STEPS,
    Training,
    Wholes,
    save,
    saved_at,
)

RECOMPUTING = NativeSettings(keeping=Keeping(recomputes=True))
OFFLOADING = NativeSettings(keeping=Keeping(offloads=True, smallest_offloaded=0))


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
    "tp2×pp2": Case(Layout(tensor=2, pipeline=2), OFFLOADING),
    "tp2×fsdp2": Case(Layout(tensor=2, sharded=2)),
    "fsdp2×pp2": Case(Layout(sharded=2, pipeline=2), RECOMPUTING),
    "hybrid": Case(Layout(data=2, sharded=2), OFFLOADING),
    "tp2×pp2×dp2": Case(Layout(tensor=2, pipeline=2, data=2)),
    "tp2×pp2×fsdp2": Case(Layout(tensor=2, pipeline=2, sharded=2), RECOMPUTING),
}
# LAMB and LANS divide by norms of whole tensors. Of a tensor with two rows, two of four ranks hold nothing.
BY_TENSOR: Mapping[str, Layout] = {
    "one process": Layout(),
    "fsdp4": Layout(sharded=4),
    "tp2×fsdp2": Layout(tensor=2, sharded=2),
    "fsdp2×pp2": Layout(sharded=2, pipeline=2),
}
OPTIMIZERS_BY_TENSOR = ("lamb", "lans")
# Tensor ranks that share the tokens of rows. Each would draw its own dropout, so there is none.
BY_ROWS: Mapping[str, Case] = {
    "one process": Case(Layout()),
    "tp2": Case(Layout(tensor=2), replace(RECOMPUTING, cuts_rows=True)),
    "tp2×pp2": Case(Layout(tensor=2, pipeline=2), NativeSettings(cuts_rows=True)),
    "tp2×fsdp2": Case(Layout(tensor=2, sharded=2), NativeSettings(cuts_rows=True)),
}
KIND_BY_TENSOR = "encoder"
WORLDS = (1, 2, 4, 8)
Told = Mapping[str, list[float]]


def before(name: str) -> str:
    """Return the layout from whose checkpoint this one continues; the layouts form a ring."""
    return list(CASES)[list(CASES).index(name) - 1]


def sources(kind: str, name: str) -> list[str]:
    """Return the layouts whose checkpoints one restores: all for a decoder, and the previous one last."""
    others = [source for source in CASES if source != before(name)] if kind == "decoder" else []
    return [*others, before(name)]


def train_and_save(folder: Path, kind: str, name: str, rank: int) -> Told:
    """Train; save half-way, in files and in memory."""
    training = Training.of(kind, CASES[name].layout, rank, CASES[name].settings)
    told = training.steps(range(SAVED_AFTER))
    wholes = Wholes.of(training.engine)
    if rank == 0:
        torch.save(wholes.tensors, folder / f"{kind} {name}.pt")
    save(training.engine, folder / f"{kind} {name}", SAVED_AFTER)
    return {f"{kind} {name}": told + training.steps(range(SAVED_AFTER, STEPS))}


def resume(folder: Path, kind: str, name: str, rank: int) -> Told:
    """Restore each layout's checkpoint exactly; continue training from the previous one."""
    training = Training.of(kind, CASES[name].layout, rank, CASES[name].settings)
    told: dict[str, list[float]] = {}
    for source in sources(kind, name):
        training.engine.restore(saved_at(folder / f"{kind} {source}", SAVED_AFTER), SAVED_AFTER)
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


def _save_half_way(folder: Path, kind: str, world: int, rank: int) -> None:
    told: dict[str, list[float]] = {}
    for name in _of_world(world):
        told |= train_and_save(folder, kind, name, rank)
    for optimizer, name in product(OPTIMIZERS_BY_TENSOR, BY_TENSOR):
        if kind == KIND_BY_TENSOR and BY_TENSOR[name].world == world:
            config = replace(CONFIG, optimizer=optimizer)
            training = Training.of(kind, BY_TENSOR[name], rank, config=config)
            told[f"{optimizer} {name}"] = training.steps(range(2))
    for name, case in BY_ROWS.items():
        if kind == KIND_BY_TENSOR and case.layout.world == world:
            training = Training.of("undropped decoder", case.layout, rank, case.settings)
            told[f"rows {name}"] = training.steps(range(2))
    _tell(folder / f"trained {world}.json", told, rank)


def _go_on(folder: Path, kind: str, world: int, rank: int) -> None:
    told: dict[str, list[float]] = {}
    for name in _of_world(world):
        told |= resume(folder, kind, name, rank)
    _tell(folder / f"resumed {world}.json", told, rank)


def _of_world(world: int) -> list[str]:
    return [name for name, case in CASES.items() if case.layout.world == world]


def _tell(path: Path, told: Told, rank: int) -> None:
    if rank == 0:
        path.write_text(json.dumps(told))


def main(folder: Path, kind: str) -> None:
    for work in (_save_half_way, _go_on):
        for world in WORLDS:
            fork_ranks(world, partial(work, folder, kind, world))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
