"""The SMP engine calls SMP v2 as AWS published it, and trains what the native engine does.

SMP is a stand-in here, because its image was not available.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from slipway.containers.recipes.gptj_finetune.config import decode
from slipway.containers.runtime.errors import Refusal
from tests.containers.forks import run_module

ROOT = Path(__file__).resolve().parents[4]
SOURCE = ROOT / "containers" / "training" / "engines" / "smp.py"
CALLS = json.loads(Path(__file__).with_name("smp_calls.json").read_text())
SMP = {"engine": "smp", "sharded": "2"}


@pytest.mark.slow
def test_it_trains_saves_and_resumes_as_the_native_engine_does(tmp_path: Path) -> None:
    ran = run_module("tests.containers.training.engines.smp_ranks", tmp_path)
    assert ran.returncode == 0, ran.stderr
    native, ours = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("native", "smp"))
    assert len(native) == len(ours) == 4
    assert native[3] == pytest.approx(native[2], rel=1e-5)  # from what the SMP engine saved
    assert ours == pytest.approx([*native[:3], native[2]], rel=1e-5)
    once, with_small_ones = json.loads((tmp_path / "bf16.json").read_text())
    assert with_small_ones == pytest.approx(once * (1 + 64 / 1024), rel=1e-2)  # bf16 adds up in fp32


def test_nothing_is_called_of_smp_but_what_is_published() -> None:
    used = {
        node.attr
        for node in ast.walk(ast.parse(SOURCE.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tsm"
    }
    assert {f"torch.sagemaker.{name}" for name in used} == set(CALLS["calls"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tensor": "2"}, "tensor=2 with engine=smp: SMP v2 cuts no layers of a GPT-J"),
        ({"pipeline": "2"}, "pipeline=2 with engine=smp: SMP v2 has no pipelines"),
        ({"precision": "fp16"}, "precision=fp16 with engine=smp: losses are not scaled there"),
        ({"sharded": "1"}, "sharded=1 with engine=smp: it only shards"),
        ({"checkpoint_activations": "budget:4"}, "checkpoint_activations=budget:4 with engine=smp"),
    ],
)
def test_what_smp_v2_lacks_is_refused_with_the_alternative(given: dict[str, str], said: str) -> None:
    with pytest.raises(Refusal) as refused:
        decode({**SMP, **given})
    assert said in str(refused.value)
