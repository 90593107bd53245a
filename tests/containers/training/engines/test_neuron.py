"""The Neuron engine calls NxD as published, and its own part computes what the native engine does.

NxD is a stand-in here, because neither Trainium nor torch-neuronx was available.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from slipway.containers.models.decoder import Decoder, DecoderShape
from slipway.containers.recipes.gpt_neox.config import decode
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.engine import EngineParts, StepWatch, build_engine
from slipway.containers.training.engines.native.engine import LayoutEngine, NativeSettings, build_native
from slipway.containers.training.layout import BatchPlan, Layout
from slipway.containers.training.task import MicroBatch, NextTokenTask
from tests.containers.training.engines import nxd_stand_in
from tests.containers.training.engines.native.trainings import PROCESSOR
from tests.containers.training.held_state import held, taken

MODULE = "slipway.containers.training.engines.neuron"
SOURCE = Path(__file__).resolve().parents[4] / "containers" / "training" / "engines" / "neuron.py"
SHAPE = DecoderShape(
    family="neox",
    layers=2,
    hidden=32,
    heads=4,
    intermediate=64,
    vocabulary=61,
    rotary_dimensions=2,
    positions=16,
    has_attention_bias=True,
    initial_spread=0.2,
)
CONFIG = decode({"precision": "fp32", "weight_decay": "0", "clip_norm": "0.5", "seed": "3"})
ROWS, LENGTH, MICRO_BATCHES = 2, 8, 2


@pytest.fixture
def neuron(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    for name, module in nxd_stand_in.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    yield importlib.import_module(MODULE)
    del sys.modules[MODULE]  # it has imported the stand-ins


def parts(**changes: Any) -> EngineParts:
    with torch.device("meta"):
        model = Decoder(changes.pop("shape", SHAPE))
    return EngineParts(
        config=replace(CONFIG, **changes),
        task=NextTokenTask(),
        model=model,
        device=PROCESSOR,
        layout=Layout(),
        rank=0,
        plan=BatchPlan(micro_batch=ROWS, accumulation_steps=MICRO_BATCHES, readers=1),
        watch=StepWatch(),
    )


def micro_batches(step: int) -> list[MicroBatch]:
    draws = torch.Generator().manual_seed(step)
    rows = torch.randint(SHAPE.vocabulary, (MICRO_BATCHES, ROWS, LENGTH + 1), generator=draws)
    return [
        MicroBatch(inputs={"words": each[:, :-1], "labels": each[:, 1:].contiguous()}, seed=0, weight=1 / 2)
        for each in rows
    ]


def trained(engine: Any, steps: range) -> list[float]:
    told = []
    for step in steps:
        loss = engine.accumulate(micro_batches(step))
        told += [float(loss[0]), engine.step(1e-2)]
        told.append(float(engine.evaluate(micro_batches(99)[0].inputs)[0]))
    return told


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("keeping", ["none", "layer"])
def test_it_trains_saves_and_resumes_as_the_native_engine_does(
    neuron: ModuleType, rotary: bool, keeping: str
) -> None:
    shape = replace(SHAPE, rotates_whole_heads=rotary)
    native = build_native(parts(shape=shape), NativeSettings())
    ours = neuron.build(parts(shape=shape, checkpoint_activations=keeping))
    assert trained(ours, range(2)) == pytest.approx(trained(native, range(2)), rel=1e-5)
    saved = {"ours": taken(ours.pieces()), "native": taken(native.pieces())}
    assert saved["ours"].keys() == saved["native"].keys()
    rest = pytest.approx(trained(native, range(2, 4)), rel=1e-5)
    again = neuron.build(parts(shape=shape))
    again.restore(held(saved["native"]), 2)
    assert trained(again, range(2, 4)) == rest
    back: LayoutEngine = build_native(parts(shape=shape), NativeSettings())
    back.restore(held(saved["ours"]), 2)
    assert trained(back, range(2, 4)) == rest


@pytest.mark.parametrize("has", [{"dropout": 0.1}, {"attention_dropout": 0.1}, {"is_tied": True}])
def test_a_model_of_which_it_would_train_another_is_refused(neuron: ModuleType, has: dict[str, Any]) -> None:
    """It drops nothing behind the embeddings, and NxD's own matrices are not tied."""
    with pytest.raises(Refusal, match="engine=neuron trains models without dropout and tied embeddings"):
        neuron.build(parts(shape=replace(SHAPE, **has)))


def test_a_pipeline_is_configured_as_nxd_publishes_it(neuron: ModuleType) -> None:
    four = replace(parts(), layout=Layout(tensor=8, pipeline=4))
    settings = neuron.neuron_settings(four, lambda module, device: None)
    assert (settings["tensor_parallel_size"], settings["pipeline_parallel_size"]) == (8, 4)
    assert settings["pipeline_config"]["num_microbatches"] == MICRO_BATCHES
    assert settings["optimizer_config"]["zero_one_enabled"]


def test_everything_that_is_imported_of_nxd_is_on_the_list() -> None:
    tree = ast.parse(SOURCE.read_text())
    known = dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {each.asname or each.name: each.name for each in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            known |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    own = {name: path for name, path in known.items() if path.startswith(("neuronx", "torch_xla"))}
    used = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in own:
            used.add(f"{own[node.value.id]}.{node.attr}")
        if isinstance(node, ast.Name) and own.get(node.id, "").rpartition(".")[2][:1].isupper():
            used.add(own[node.id])
    assert len(used) == len(nxd_stand_in.FUNCTIONS)
    assert used == set(nxd_stand_in.FUNCTIONS) <= set(nxd_stand_in.CALLS)


def test_without_neuron_s_packages_the_engine_is_refused_in_one_line() -> None:
    with pytest.raises(Refusal, match="engine neuron needs the package 'neuronx_distributed'"):
        build_engine(parts(engine="neuron"))
