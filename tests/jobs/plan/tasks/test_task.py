"""A user's own tasks and techniques say what is wrong with them, and are found by name."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from slipway import BaseTechnique, HParams, SlipwayError, Task, deregister, register, retrieve
from slipway.jobs.plan.tasks import library
from slipway.jobs.plan.tasks.task import refuse_like_named
from slipway.jobs.plan.techniques.techniques import TECHNIQUES
from tests.containers.tasks import own_code


def task(lr: float = 1e-3) -> Task:
    return Task(own_code.perceptron, own_code.points, own_code.class_loss, HParams(lr, epochs=1))


@pytest.mark.parametrize("given", [{}, {"epochs": 1, "batch_count": 1}])
def test_epochs_and_batch_count_exclude_each_other_as_in_saturn(given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="give one of them, and not both"):
        HParams(1e-3, **given)  # type: ignore[arg-type]  # they are whole numbers


@pytest.mark.parametrize(
    "given", [{"lr": 0.0, "epochs": 1}, {"lr": 1e-3, "epochs": 0}, {"lr": float("nan"), "epochs": 1}]
)
def test_numbers_that_train_nothing_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(SlipwayError, match="it must be more than 0"):
        HParams(**given)  # type: ignore[arg-type]  # as a user would


def test_a_name_is_made_of_the_task_and_follows_its_changes() -> None:
    assert task().name == task().name
    assert task().name.startswith("perceptron-")
    copied = copy.deepcopy(task())
    copied.change_name()
    copied.hparams.lr = 1.0
    assert copied.name != task().name
    copied.change_name("mine")
    assert copied.name == "mine"


def test_two_tasks_that_are_the_same_are_told_apart_by_names_or_refused() -> None:
    with pytest.raises(SlipwayError, match="is the name of 2 tasks"):
        refuse_like_named([task(), task()])
    with pytest.raises(SlipwayError, match="there are none"):
        refuse_like_named([])


def test_a_saved_model_is_found_again_without_a_pickle(tmp_path: object) -> None:
    mine = Task(
        own_code.perceptron,
        partial(own_code.points, 4),
        own_code.class_loss,
        HParams(1e-3, batch_count=2, hidden=8),
        save_dir=str(tmp_path),
    )
    assert not mine.has_ckpt()
    model = mine.get_model()
    with torch.no_grad():
        next(model.parameters()).zero_()
    mine.save(model)
    assert mine.has_ckpt()
    assert not next(mine.get_model().parameters()).any()
    assert next(mine.get_model(fresh=True).parameters()).any()


# A user's own techniques are registered by name, found by module path, and never unpickled.


class Mine(BaseTechnique):
    def execute(task, gpus, task_id, batch_count):  # type: ignore[no-untyped-def]  # noqa: N805 - as the article has it
        return None

    def search(task, gpus, task_id):  # type: ignore[no-untyped-def]  # noqa: N805 - likewise
        return {}


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "techniques.json"
    monkeypatch.setenv(library.VARIABLE, str(path))
    monkeypatch.setattr(library, "_of_this_session", {})
    return path


def test_another_session_finds_the_class_by_its_module(own_file: Path) -> None:
    register("mine", Mine)
    assert json.loads(own_file.read_text())["mine"]["module"] == __name__
    code = "from slipway import retrieve; print(retrieve('mine').__qualname__)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "Mine\n"


def test_all_techniques_are_ours_and_the_users() -> None:
    register("mine", Mine)
    assert [found.name for found in retrieve()[:-1]] == list(TECHNIQUES)
    assert retrieve()[-1] is Mine
    assert retrieve(["mine", "fsdp"])[0] is Mine


def test_a_technique_that_was_deregistered_is_gone() -> None:
    register("mine", Mine)
    deregister(["mine"])
    with pytest.raises(SlipwayError, match="there is no technique 'mine'"):
        retrieve("mine")


def test_our_own_techniques_stay() -> None:
    with pytest.raises(SlipwayError, match="'fsdp' is our own technique and stays"):
        deregister("fsdp")
    with pytest.raises(RuntimeError, match="'fsdp' is our own technique"):
        register("fsdp", Mine)


@pytest.mark.parametrize("given", [int, "text", object()])
def test_anything_but_a_subclass_is_a_runtime_error_as_in_saturn(given: type[BaseTechnique]) -> None:
    with pytest.raises(RuntimeError, match="no subclass of BaseTechnique"):
        register("mine", given)


def test_a_technique_without_its_functions_is_refused_by_name() -> None:
    class Half(BaseTechnique):
        def search(task, gpus, task_id):  # type: ignore[no-untyped-def]  # noqa: N805 - as the article has it
            return {}

    with pytest.raises(RuntimeError, match="'half' has no execute"):
        register("half", Half)


def test_a_class_that_no_other_process_finds_is_refused() -> None:
    class Local(Mine):
        pass

    with pytest.raises(RuntimeError, match="other processes cannot find by a name"):
        register("local", Local)
