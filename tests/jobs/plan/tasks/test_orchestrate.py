"""Twelve tasks like the article's are planned and run together, and learn what each learns alone."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from slipway import BaseTechnique, HParams, SlipwayError, Task, orchestrate, register, search
from slipway.jobs.plan.tasks import library
from slipway.jobs.plan.tasks.local_machine import LocalMachine, RankGang, find_devices
from slipway.jobs.plan.tasks.searching import Orchestration
from slipway.jobs.plan.techniques.techniques import TECHNIQUES
from tests.containers.tasks import own_code
from tests.jobs.plan.tasks.own_tasks import decoder

RATES = (1e-1, 1e-2, 1e-3)
DEVICES = 2
TRIED = ["data", "fsdp", "gpipe"]


class Own(BaseTechnique):
    """Trains on one device as the article's technique does, however many it is given."""

    def execute(task: Any, gpus: list[int], task_id: int, batch_count: int | None) -> None:  # noqa: N805
        model = task.get_model()
        optimizer = task.hparams.optimizer_cls(model.parameters(), lr=task.hparams.lr)
        for _, (inputs, targets) in zip(
            range(batch_count or task.total_batches), task.get_iterator(), strict=False
        ):
            optimizer.zero_grad()
            task.loss_function(model(inputs), targets).backward()
            optimizer.step()
        task.save(model)

    def search(task: Any, gpus: list[int], task_id: int) -> object:  # noqa: N805
        return {"blocks": 4} if len(gpus) == 1 else None


def twelve(folder: Path) -> list[Task]:
    """Make tasks for two models × learning rates × batch sizes."""
    return [
        Task(
            model,
            partial(load, rows),
            loss,
            HParams(rate, epochs=1, optimizer_cls=optimizer),
            save_dir=str(folder),
        )
        for model, load, loss, optimizer in (
            (own_code.decoder, own_code.texts, own_code.next_word, torch.optim.AdamW),
            (own_code.perceptron, own_code.points, own_code.class_loss, torch.optim.SGD),
        )
        for rate in RATES
        for rows in (4, 8)
    ]


@dataclass(kw_only=True)
class Trained:
    tasks: list[Task]
    hopeless: SlipwayError
    result: Orchestration
    alone: dict[str, list[float]]
    alone_seconds: float


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    folder = tmp_path_factory.mktemp("tasks")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patched.setenv(library.VARIABLE, str(folder / "techniques.json"))
        patched.setattr(library, "_of_this_session", {})
        tasks = twelve(folder / "models")
        too_large = Task(
            own_code.too_large,
            own_code.points,
            own_code.class_loss,
            HParams(1e-3, epochs=1),
            save_dir=str(folder),
        )
        with pytest.raises(SlipwayError) as hopeless:
            search([*tasks, too_large], TRIED, devices=DEVICES)
        result = orchestrate(tasks, devices=DEVICES)
        began = time.monotonic()
        alone = dict(train_alone(tasks, folder / "alone"))
        yield Trained(
            tasks=tasks,
            hopeless=hopeless.value,
            result=result,
            alone=alone,
            alone_seconds=time.monotonic() - began,
        )


def train_alone(tasks: list[Task], folder: Path) -> Iterator[tuple[str, list[float]]]:
    with LocalMachine(find_devices(DEVICES)) as machine:
        for task in tasks:
            own = folder / task.name
            gang = RankGang(task=task.describe(), devices=(0,), settings={"engine": "plain"}, folder=own)
            assert machine.run(gang).reason == ""
            yield task.name, losses(own)


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "steps.jsonl").read_text().splitlines()]


def test_each_task_learns_what_it_learns_alone(trained: Trained) -> None:
    print(f"together {trained.result.seconds:.1f} s, one at a time {trained.alone_seconds:.1f} s")
    assert len(trained.result.ends) == 12
    for task in trained.tasks:
        assert losses(task.folder / "logs") == pytest.approx(trained.alone[task.name], rel=2e-6), task.name


def test_the_plan_has_a_bound_and_gives_no_device_to_two_at_once(trained: Trained) -> None:
    assert 0 < trained.result.bound_seconds <= trained.result.planned_seconds
    for device in range(DEVICES):
        turns = sorted((end.start, end.end) for end in trained.result.ends if device in end.devices)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(turns))


def test_a_few_trials_tell_all_tasks(trained: Trained) -> None:
    sources = {strategy.source for task in trained.tasks for strategy in task.strategies.values()}
    assert sources == {"measured", "fitted"}
    assert all(set(task.strategies) == {1, 2} for task in trained.tasks)
    kept = len(list((Path(trained.tasks[0].options.save_dir).parent / "cache").rglob("*.json")))
    assert kept <= 16  # of 72: twelve tasks, three techniques, two sizes


def test_what_cannot_train_a_task_is_noted_with_its_reason_and_stops_nothing(trained: Trained) -> None:
    reasons = [task.not_fitting for task in trained.tasks if task.name.startswith("perceptron")]
    assert any("pipeline=2 cannot cut Sequential" in each.get("gpipe on 2", "") for each in reasons)
    assert "nothing can train task 'too_large-" in trained.hopeless.message
    assert "tried to allocate 80.00 GiB" in trained.hopeless.message


def test_a_trained_model_comes_back_out_of_its_checkpoint(trained: Trained) -> None:
    task = trained.tasks[-1]
    before, after = task.get_model(fresh=True), task.get_model()
    assert any(
        not torch.equal(one, other)
        for one, other in zip(before.parameters(), after.parameters(), strict=True)
    )


def test_a_second_time_finds_all_trained(trained: Trained) -> None:
    steps = [(task.folder / "logs" / "steps.jsonl").read_text() for task in trained.tasks[:2]]
    assert orchestrate(trained.tasks[:2], devices=DEVICES).ends == ()
    assert steps == [(task.folder / "logs" / "steps.jsonl").read_text() for task in trained.tasks[:2]]


def test_a_task_goes_on_elsewhere_with_its_optimizer_and_data_position(tmp_path: Path) -> None:
    with LocalMachine(find_devices(DEVICES)) as machine:
        whole = RankGang(
            task=decoder(batches=4), devices=(0,), settings={"engine": "plain"}, folder=tmp_path / "whole"
        )
        first = replace(
            whole, task=decoder(batches=2), folder=tmp_path / "parts", checkpoints=tmp_path / "checkpoints"
        )
        rest = replace(
            first,
            task=decoder(batches=4),
            devices=(0, 1),
            settings=next(iter(TECHNIQUES["fsdp"](2, 2))).settings,
        )
        assert [machine.run(gang).reason for gang in (whole, first, rest)] == ["", "", ""]
    assert losses(tmp_path / "parts") == pytest.approx(losses(tmp_path / "whole"), rel=2e-6)


def test_a_technique_of_the_users_own_searches_and_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.VARIABLE, str(tmp_path / "techniques.json"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(library, "_of_this_session", {})
    register("own", Own)
    task = Task(
        own_code.perceptron,
        own_code.points,
        own_code.class_loss,
        HParams(1e-2, epochs=1),
        save_dir=str(tmp_path),
    )
    search([task], ["own"], devices=DEVICES)
    assert {count: strategy.parameters for count, strategy in task.strategies.items()} == {1: {"blocks": 4}}
    assert task.not_fitting == {"own on 2": "its search says so"}
    assert [end.technique for end in orchestrate([task], devices=DEVICES).ends] == ["own"]
    assert task.has_ckpt()
