"""Every layout trains as one process does, and goes on from what any other has saved."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("torch")

from slipway.containers.training.layout import Layout
from tests.containers.training.engines.native.layouts import (
    CASES,
    KINDS,
    named,
    resume_all,
    sources,
    train_and_save,
)
from tests.containers.training.engines.native.trainings import SAVED_AFTER, STEPS

# Not shown to end in minutes on two cores yet: SLIPWAY_PROVE_LAYOUTS=1 scripts/test PATH runs it.
pytestmark = pytest.mark.skipif(
    not os.environ.get("SLIPWAY_PROVE_LAYOUTS"), reason="the proof of all layouts is asked for by name"
)
ROOT = Path(__file__).resolve().parents[5]
PATIENCE_SECONDS = 1200
NUMBERS = 3  # of each step: loss, norm, loss without dropout

Told = Mapping[str, list[float]]


@contextmanager
def ranks(world: int, folder: Path) -> Iterator[list[subprocess.Popen[str]]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    module = "tests.containers.training.engines.native.layouts"
    started = [
        subprocess.Popen(
            [sys.executable, "-m", module, *map(str, (rank, world, port, folder))],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def prove(worlds: tuple[int, ...], folder: Path) -> Told:
    """Train in all layouts of so many ranks, side by side; then resume each from each."""
    with ExitStack() as stack:
        groups = [stack.enter_context(ranks(world, folder)) for world in worlds]
        told = train_and_save(0, 1, folder)
        processes = [process for group in groups for process in group]
        for process in processes:
            assert process.stdout is not None, "it is a pipe"
            assert process.stdout.readline() == "saved\n"
        resumed = [process.communicate("go on\n", timeout=PATIENCE_SECONDS)[0] for process in processes]
        for answer in resumed:  # what a rank that does not speak returns is its peers' sum all the same
            told |= json.loads(answer)
    return told | resume_all(0, 1, folder)


def close(numbers: list[float]) -> object:
    return pytest.approx(numbers, rel=2e-5, abs=2e-5)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return prove((2, 4), tmp_path_factory.mktemp("saved"))


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*named(2), *named(4)])
def test_a_layout_has_the_losses_and_norms_of_one_process(told: Told, kind: str, name: str) -> None:
    assert told[f"{kind} {name}"] == close(told[f"{kind} one process"])


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*named(1), *named(2)])
def test_a_layout_goes_on_from_what_each_other_has_saved(told: Told, kind: str, name: str) -> None:
    rest = told[f"{kind} one process"][NUMBERS * SAVED_AFTER : NUMBERS * STEPS]
    found = {
        key: numbers for key, numbers in told.items() if key.startswith(kind) and key.endswith(f"-> {name}")
    }
    assert len(found) == len([*named(1), *named(2)])
    for numbers in found.values():
        assert numbers == close(rest)


@pytest.mark.slow
@pytest.mark.alone
def test_eight_ranks_in_three_dimensions_train_and_resume_as_one_process(tmp_path: Path) -> None:
    found = prove((8,), tmp_path)
    for kind in KINDS:
        for name in named(8):
            assert found[f"{kind} {name}"] == close(found[f"{kind} one process"])
    rest = found["decoder one process"][NUMBERS * SAVED_AFTER :]
    for name in named(8):
        for source in sources("decoder", name):
            assert found[f"decoder {source} -> {name}"] == close(rest)


def test_every_layout_that_is_promised_is_proved() -> None:
    assert {case.layout.world for case in CASES.values()} == {1, 2, 4, 8}
    assert Layout(tensor=2, pipeline=2, data=2) in {case.layout for case in CASES.values()}
