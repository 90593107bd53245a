"""Runs two ranks of the SMP engine on a stand-in, and one of the native engine: `python -m … FOLDER`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from slipway.containers.models.decoder import Decoder, DecoderShape
from slipway.containers.recipes.gptj_finetune.config import decode
from slipway.containers.recipes.gptj_finetune.data import RowLayout
from slipway.containers.recipes.gptj_finetune.model import CausalTask
from slipway.containers.training.engine import EngineParts, StepWatch
from slipway.containers.training.engines.native.engine import NativeSettings, build_native
from slipway.containers.training.layout import BatchPlan, Layout
from slipway.containers.training.task import MicroBatch
from tests.containers.recipes.gptj_finetune.test_rows import SHAPE, some_rows
from tests.containers.training.engines.native.forks import fork_ranks
from tests.containers.training.engines.native.trainings import PROCESSOR
from tests.containers.training.held_state import held, taken

CALLS: Mapping[str, Any] = json.loads(Path(__file__).with_name("smp_calls.json").read_text())
STEPS, SAVED_AFTER = 3, 2
SMALL = [1 / 1024] * 64  # in bf16 each of them is added to 1 in vain


def stand_in() -> ModuleType:
    """Return a stand-in of SMP: its `init` takes the settings of AWS's page, and makes no groups."""
    module = ModuleType("torch.sagemaker")
    kinds = {"int": int, "bool": bool}

    def init(config: Mapping[str, object] | None = None) -> None:
        for name, value in (config or {}).items():
            assert type(value) is kinds[CALLS["settings"][name]], f"{name} is {value!r}"

    module.init = init  # type: ignore[attr-defined]  # that is what a stand-in is
    return module


def parts(layout: Layout, rank: int, **changes: str) -> EngineParts:
    shape: DecoderShape = SHAPE
    with torch.device("meta"):
        model = Decoder(shape)
    return EngineParts(
        config=decode({"precision": "fp32", "clip_norm": "0.5", "weight_decay": "0.1", **changes}),
        task=CausalTask(),
        model=model,
        device=PROCESSOR,
        layout=layout,
        rank=rank,
        plan=BatchPlan(micro_batch=1, accumulation_steps=4 // layout.readers, readers=layout.readers),
        watch=StepWatch(),
    )


def trained(engine: Any, layout: Layout, rank: int, steps: range) -> list[float]:
    told = []
    rows, lying = some_rows(), RowLayout(is_packed=True)
    own = range(4)[layout.reader(rank) :: layout.readers]
    for step in steps:
        batch = [
            MicroBatch(
                inputs=lying.inputs(rows.picked(torch.tensor([number]).numpy()), PROCESSOR),
                seed=number,
                weight=1 / len(own),
            )
            for number in own
        ]
        engine.accumulate(batch)
        told.append(engine.step(1e-2 / (step + 1)))
    return told


def be_native(folder: Path, rank: int) -> None:
    engine = build_native(parts(Layout(), rank), NativeSettings())
    told = trained(engine, Layout(), rank, range(SAVED_AFTER))
    torch.save(taken(engine.pieces()), folder / "native.pt")
    told += trained(engine, Layout(), rank, range(SAVED_AFTER, STEPS))
    if (folder / "smp.pt").exists():
        engine.restore(held(torch.load(folder / "smp.pt")), SAVED_AFTER)
        told += trained(engine, Layout(), rank, range(SAVED_AFTER, STEPS))
    (folder / "native.json").write_text(json.dumps(told))


def be_smp(folder: Path, rank: int) -> None:
    torch.sagemaker = sys.modules["torch.sagemaker"] = stand_in()  # SMP puts it there
    smp = import_module("slipway.containers.training.engines.smp")
    layout = Layout(sharded=2)
    engine = smp.build(parts(layout, rank, sharded="2", checkpoint_activations="layer"))
    told = trained(engine, layout, rank, range(SAVED_AFTER))
    found = taken(engine.pieces())
    if rank == 0:
        torch.save(found, folder / "smp.pt")
    told += trained(engine, layout, rank, range(SAVED_AFTER, STEPS))
    again = smp.build(parts(layout, rank, sharded="2", sharded_state="optimizer"))
    again.restore(held(torch.load(folder / "native.pt")), SAVED_AFTER)
    told += trained(again, layout, rank, range(SAVED_AFTER, STEPS))
    norms = [norm_of(smp, layout, rank, weights) for weights in ([1.0], [1.0, *SMALL])]
    if rank == 0:
        (folder / "smp.json").write_text(json.dumps(told))
        (folder / "bf16.json").write_text(json.dumps(norms))


def norm_of(smp: Any, layout: Layout, rank: int, weights: list[float]) -> float:
    """Return the gradient norm in bf16 of a row that comes again with each of these weights."""
    given = parts(layout, rank, sharded="2", clip_norm="1000")
    engine = smp.build(replace(given, device=replace(given.device, precision=torch.bfloat16)))
    row = RowLayout(is_packed=True).inputs(some_rows().picked(torch.tensor([0]).numpy()), PROCESSOR)
    engine.accumulate([MicroBatch(inputs=row, seed=0, weight=weight) for weight in weights])
    norm: float = engine.step(0.0)
    return norm


def main(folder: Path) -> None:
    fork_ranks(1, partial(be_native, folder))
    fork_ranks(2, partial(be_smp, folder))
    fork_ranks(1, partial(be_native, folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
