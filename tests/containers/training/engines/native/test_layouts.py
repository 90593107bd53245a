"""Every layout trains as one process does, and resumes from any other's checkpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("torch")

from slipway.containers.training.layout import Layout
from tests.containers.training.engines.native.layouts import (
    BY_ROWS,
    BY_TENSOR,
    CASES,
    KIND_BY_TENSOR,
    OPTIMIZERS_BY_TENSOR,
    before,
    sources,
)
from tests.containers.training.engines.native.trainings import SAVED_AFTER, STEPS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[5]
PATIENCE_SECONDS = 900
NUMBERS = 3  # for each step: loss, norm, loss without dropout

# The daily run takes the encoder through all layouts. The decoder, which is restored from every layout in
# every other, takes three times as long, and a tied one as long as the encoder. The daily tests of gpt_neox
# and gptj_finetune try cuts of decoders, and those of self-checks the hardest cut of a tied one.
KINDS = (
    KIND_BY_TENSOR,
    pytest.param("decoder", marks=pytest.mark.long),
    pytest.param("tied decoder", marks=pytest.mark.long),
)

Told = Mapping[str, list[float]]


@pytest.fixture(scope="module")
def told(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Train in all layouts, one after another; then resume each from others."""
    folder = tmp_path_factory.mktemp("saved")
    module = "tests.containers.training.engines.native.layouts"
    process = subprocess.Popen(
        [sys.executable, "-m", module, str(folder), kind],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, errors
    found: dict[str, list[float]] = {}
    for path in folder.glob("*.json"):
        found |= json.loads(path.read_text())
    return found


def close(numbers: list[float]) -> object:
    return pytest.approx(numbers, rel=2e-6, abs=2e-6)


@pytest.mark.parametrize("kind", KINDS, scope="module")
@pytest.mark.parametrize("name", list(CASES)[1:])
def test_a_layout_has_the_losses_and_norms_of_one_process(told: Told, kind: str, name: str) -> None:
    assert len(told[f"{kind} {name}"]) == NUMBERS * STEPS
    assert told[f"{kind} {name}"] == close(told[f"{kind} one process"])


@pytest.mark.parametrize("kind", KINDS, scope="module")
@pytest.mark.parametrize("name", CASES)
def test_a_layout_restores_bit_for_bit_what_each_other_has_saved(told: Told, kind: str, name: str) -> None:
    found = {source: told[f"{kind} {source} in {name}"] for source in sources(kind, name)}
    assert found == {source: [0.0] for source in found}


@pytest.mark.parametrize("kind", KINDS, scope="module")
@pytest.mark.parametrize("name", CASES)
def test_a_layout_trains_on_from_what_another_has_saved(told: Told, kind: str, name: str) -> None:
    rest = told[f"{kind} one process"][NUMBERS * SAVED_AFTER :]
    assert told[f"{kind} {before(name)} -> {name}"] == close(rest)


@pytest.mark.parametrize("kind", [KIND_BY_TENSOR], scope="module")
@pytest.mark.parametrize("optimizer", OPTIMIZERS_BY_TENSOR)
@pytest.mark.parametrize("name", list(BY_TENSOR)[1:])
def test_lamb_and_lans_know_the_norms_of_tensors_that_are_cut(told: Told, optimizer: str, name: str) -> None:
    assert told[f"{optimizer} {name}"] == close(told[f"{optimizer} one process"])


@pytest.mark.parametrize("kind", [KIND_BY_TENSOR], scope="module")
@pytest.mark.parametrize("name", list(BY_ROWS)[1:])
def test_tensor_ranks_that_share_rows_have_the_losses_and_norms_of_one_process(
    told: Told, kind: str, name: str
) -> None:
    assert told[f"rows {name}"] == close(told["rows one process"])


def test_every_layout_that_is_promised_is_proved() -> None:
    promised = (
        Layout(tensor=2),
        Layout(pipeline=2),
        Layout(sharded=2),
        Layout(tensor=2, pipeline=2),
        Layout(tensor=2, sharded=2),
        Layout(tensor=2, pipeline=2, data=2),
        Layout(data=2, sharded=2),
    )
    assert {case.layout for case in CASES.values()} >= set(promised)
