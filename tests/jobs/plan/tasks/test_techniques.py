"""Every technique, also a new one, trains a user's own task on 1 to 4 ranks as one process does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from slipway.containers.tasks.description import TaskDescription
from slipway.jobs.plan.tasks.local_machine import LocalMachine, RankGang, find_devices
from slipway.jobs.plan.techniques.techniques import TECHNIQUES
from tests.jobs.plan.tasks.own_tasks import BATCHES, decoder, perceptron
from tests.jobs.plan.techniques.test_modes import variants

ANY_MODEL = ("data", "zero", "fsdp", "spilled")  # the techniques that train a model without Slipway's parts
MOST_RANKS = 4


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    ranks: int
    settings: Mapping[str, str]


def cases() -> list[Case]:
    """Return all variants on 1 and 2 ranks, and on 4 ranks those that need them."""
    return [
        Case(variant.name, ranks, variant.settings)
        for ranks in (1, 2, MOST_RANKS)
        for technique, variant in variants(ranks, ranks)
        if ranks < MOST_RANKS or (technique == "product" and "recomputed" not in variant.name)
    ]


ONE_PROCESS = cases()[0]


def of_any_model() -> list[Case]:
    return [
        Case(variant.name, ranks, variant.settings)
        for ranks in (1, 2)
        for technique, variant in variants(ranks, ranks)
        if technique in ANY_MODEL and variant.name in (technique, "fsdp offloaded")
    ]


def told(case: Case) -> Any:
    # The daily run tests four ranks and recomputation in tests/containers/training/engines/native.
    is_nightly = case.ranks == MOST_RANKS or "recomputed" in case.name
    marks = [pytest.mark.long] if is_nightly else []
    return pytest.param(case, id=f"{case.name}-{case.ranks}", marks=marks)


class Trainings:
    """Trains each task in each way once, as forks of one process that has imported torch."""

    def __init__(self, machine: LocalMachine, folder: Path) -> None:
        self._machine, self._folder = machine, folder
        self._kept: dict[tuple[str, str, int], list[float]] = {}

    def losses(self, task: TaskDescription, case: Case) -> list[float]:
        key = (task.name, case.name, case.ranks)
        if key not in self._kept:
            folder = self._folder / str(len(self._kept))
            with self._machine.taken(case.ranks) as devices:
                gang = RankGang(task=task, devices=devices, settings=case.settings, folder=folder)
                end = self._machine.run(gang)
            assert (end.code, end.reason) == (0, "")
            lines = (folder / "steps.jsonl").read_text().splitlines()
            self._kept[key] = [json.loads(line)["loss"] for line in lines]
        return self._kept[key]


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trainings]:
    with LocalMachine(find_devices(MOST_RANKS)) as machine:
        yield Trainings(machine, tmp_path_factory.mktemp("trained"))


@pytest.mark.parametrize("case", [told(case) for case in cases()])
def test_a_technique_loses_what_one_process_loses(trainings: Trainings, case: Case) -> None:
    found = trainings.losses(decoder(), case)
    assert len(found) == BATCHES
    assert found == pytest.approx(trainings.losses(decoder(), ONE_PROCESS), rel=2e-6)


@pytest.mark.parametrize("case", [told(case) for case in of_any_model()])
def test_a_model_that_knows_nothing_of_the_house_trains_too(trainings: Trainings, case: Case) -> None:
    found = trainings.losses(perceptron(), case)
    assert len(found) == 4  # of 30 rows, eight at a time
    assert found == pytest.approx(trainings.losses(perceptron(), ONE_PROCESS), rel=2e-6)


def test_every_technique_of_the_registry_was_tried() -> None:
    tried = {name for ranks in (1, 2, MOST_RANKS) for name, _ in variants(ranks, ranks)}
    assert tried == set(TECHNIQUES)
