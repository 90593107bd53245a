"""A task says at once what is wrong with it, and has a name by which it finds its checkpoints again."""

from __future__ import annotations

import copy
from functools import partial

import pytest

pytest.importorskip("torch")

import torch

from slipway import HParams, SlipwayError, Task
from slipway.jobs.plan.tasks.task import NamedTasks
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
        NamedTasks.of([task(), task()])
    with pytest.raises(SlipwayError, match="there are none"):
        NamedTasks.of([])


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
