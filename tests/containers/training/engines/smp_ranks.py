"""Runs two ranks of the SMP engine on a stand-in, and one of the native engine: `python -m … FOLDER`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from slipway.containers.models.decoder import Decoder, DecoderShape
from slipway.containers.recipes.gptj_finetune.config import decode
from slipway.containers.recipes.gptj_finetune.data import RowLayout
from slipway.containers.recipes.gptj_finetune.model import CausalTask
from slipway.containers.training.engine import EngineParts, StepWatch
from slipway.containers.training.engines.native.engine import NativeSettings, build_native
from slipway.containers.training.layout import BatchPlan, Layout
from slipway.containers.training.task import MicroBatch
from tests.containers.recipes.gptj_finetune.test_rows import PROCESSOR, SHAPE, some_rows
from tests.containers.training.engines.native.forks import fork_ranks

CALLS: Mapping[str, Any] = json.loads(Path(__file__).with_name("smp_calls.json").read_text())
STEPS, SAVED_AFTER = 3, 2


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


class Saved:
    """Hold what an engine saves as whole tensors, as another engine reads it."""

    def __init__(self, tensors: Mapping[tuple[str, str], Tensor]) -> None:
        self._tensors = tensors

    def read(self, kind: str, parameter: str) -> Tensor:
        return self._tensors[kind, parameter]

    def copy_to(self, targets: Any) -> None:
        for wanted, target in targets:
            target.copy_(self._tensors[wanted.kind, wanted.parameter])


def be_native(folder: Path, rank: int) -> None:
    engine = build_native(parts(Layout(), rank), NativeSettings())
    told = trained(engine, Layout(), rank, range(SAVED_AFTER))
    torch.save({(one.kind, one.parameter): one.data for one in engine.pieces()}, folder / "native.pt")
    told += trained(engine, Layout(), rank, range(SAVED_AFTER, STEPS))
    if (folder / "smp.pt").exists():
        engine.restore(Saved(torch.load(folder / "smp.pt")), SAVED_AFTER)  # type: ignore[arg-type]  # all that is read
        told += trained(engine, Layout(), rank, range(SAVED_AFTER, STEPS))
    (folder / "native.json").write_text(json.dumps(told))


def be_smp(folder: Path, rank: int) -> None:
    torch.sagemaker = sys.modules["torch.sagemaker"] = stand_in()  # SMP puts it there
    smp = import_module("slipway.containers.training.engines.smp")
    layout = Layout(sharded=2)
    engine = smp.build(parts(layout, rank, sharded="2", checkpoint_activations="layer"))
    told = trained(engine, layout, rank, range(SAVED_AFTER))
    found = {(one.kind, one.parameter): one.data.clone() for one in engine.pieces()}
    if rank == 0:
        torch.save(found, folder / "smp.pt")
    told += trained(engine, layout, rank, range(SAVED_AFTER, STEPS))
    again = smp.build(parts(layout, rank, sharded="2", sharded_state="optimizer"))
    again.restore(Saved(torch.load(folder / "native.pt")), SAVED_AFTER)
    told += trained(again, layout, rank, range(SAVED_AFTER, STEPS))
    if rank == 0:
        (folder / "smp.json").write_text(json.dumps(told))


def main(folder: Path) -> None:
    fork_ranks(1, partial(be_native, folder))
    fork_ranks(2, partial(be_smp, folder))
    fork_ranks(1, partial(be_native, folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
