"""Every technique trains a user's own task on 1 to 4 ranks as one process does: a new one has to pass."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("torch")

from slipway.containers.tasks.description import TaskDescription
from slipway.jobs.tasks.local_machine import GangEnd, LocalMachine, RankGang, find_devices
from slipway.jobs.techniques.registry import TECHNIQUES, variants
from tests.jobs.tasks.own_tasks import BATCHES, decoder, perceptron

ANY_MODEL = ("data", "zero", "fsdp", "spilled")  # what trains a model that knows nothing of the house
MOST_RANKS = 4


def cases() -> list[tuple[str, int, Mapping[str, str]]]:
    """Return all variants on 1 and 2 ranks, and on 4 what needs so many."""
    return [
        (variant.name, ranks, variant.settings)
        for ranks in (1, 2, MOST_RANKS)
        for technique, variant in variants(ranks, ranks)
        if ranks < MOST_RANKS or (technique == "product" and "recomputed" not in variant.name)
    ]


def of_any_model() -> list[tuple[str, int, Mapping[str, str]]]:
    return [
        (variant.name, ranks, variant.settings)
        for ranks in (1, 2)
        for technique, variant in variants(ranks, ranks)
        if technique in ANY_MODEL and variant.name in (technique, "fsdp offloaded")
    ]


Ends = Mapping[tuple[str, str, int], tuple[GangEnd, list[float]]]


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Ends:
    """Train in all ways, a few at a time, as forks of one process that has imported torch."""
    folder = tmp_path_factory.mktemp("trained")
    all_cases = [(decoder(), *case) for case in cases()] + [(perceptron(), *case) for case in of_any_model()]
    found = {}
    with LocalMachine(find_devices(MOST_RANKS)) as machine, ThreadPoolExecutor(3) as pool:

        def train(number: int, task: TaskDescription, ranks: int, settings: Mapping[str, str]) -> GangEnd:
            with machine.taken(ranks) as devices:
                own = folder / str(number)
                return machine.run(RankGang(task=task, devices=devices, settings=settings, folder=own))

        running = [
            pool.submit(train, number, task, ranks, settings)
            for number, (task, _, ranks, settings) in enumerate(all_cases)
        ]
        for number, (task, name, ranks, _) in enumerate(all_cases):
            end = running[number].result()
            found[task.name, name, ranks] = (end, losses(folder / str(number)) if not end.code else [])
    return found


def losses(folder: Path) -> list[float]:
    lines = (folder / "steps.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


@pytest.mark.parametrize(("name", "ranks"), [(name, ranks) for name, ranks, _ in cases()])
def test_a_technique_loses_what_one_process_loses(ends: Ends, name: str, ranks: int) -> None:
    end, found = ends["decoder", name, ranks]
    assert end.reason == ""
    assert len(found) == BATCHES
    assert found == pytest.approx(ends["decoder", "data", 1][1], rel=2e-6)


@pytest.mark.parametrize(("name", "ranks"), [(name, ranks) for name, ranks, _ in of_any_model()])
def test_a_model_that_knows_nothing_of_the_house_trains_too(ends: Ends, name: str, ranks: int) -> None:
    end, found = ends["perceptron", name, ranks]
    assert end.reason == ""
    assert len(found) == 4  # of 30 rows, eight at a time
    assert found == pytest.approx(ends["perceptron", "data", 1][1], rel=2e-6)


def test_every_technique_of_the_registry_was_tried() -> None:
    tried = {name for ranks in (1, 2, MOST_RANKS) for name, _ in variants(ranks, ranks)}
    assert tried == set(TECHNIQUES)
