"""A save that fails costs one checkpoint; saves that go on failing end the training while it can resume."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Training
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import RESUMABLE_EXIT_CODE, Interruption
from slipway.containers.training.saving import MOST_FAILED, Saving
from slipway.containers.training.shutdown_watch import ShutdownWatch
from slipway.containers.training.state import WEIGHTS, TensorPiece

CONTRACT = LaunchContract(
    job="bert",
    run="r1",
    attempt=1,
    node=0,
    nodes=1,
    rank=0,
    world=1,
    local_rank=0,
    local_world=1,
    main_address="127.0.0.1",
    main_port=1,
)


class OneTensor:
    def pieces(self) -> list[TensorPiece]:
        return [TensorPiece(kind=WEIGHTS, parameter="w", start=0, data=torch.ones(4))]


def saving(checkpoints: Checkpoints, said: list[str], steps: int = 100) -> Saving:
    return Saving(
        engine=OneTensor(),
        checkpoints=checkpoints,
        ending=ShutdownWatch(CONTRACT),
        every=1,
        minutes=10.0,
        steps=steps,
        place=torch.device("cpu"),
        say=said.append,
    )


def broken_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("slipway.containers.runtime.checkpoint.checkpoints.write_tensors", refuse)


def opened(folder: Path) -> Checkpoints:
    return Checkpoints(folder, Training(job="bert", run="r1", attempt=1), say=lambda _: None)


def test_saves_that_go_on_failing_end_the_training_resumably(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with opened(tmp_path) as checkpoints:
        save = saving(checkpoints, said)
        save.after(1, must_end=False)
        broken_disk(monkeypatch)
        for step in range(2, 1 + MOST_FAILED):
            save.after(step, must_end=False)
        with pytest.raises(
            Interruption, match=r"save 3 in a row to fail, and the newest is of step 1"
        ) as end:
            save.after(1 + MOST_FAILED, must_end=False)
    assert end.value.exit_code == RESUMABLE_EXIT_CODE
    assert [line.partition(":")[0] for line in said[1:]] == ["warning", "warning"]


def test_one_save_that_fails_is_forgotten_when_the_next_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as checkpoints:
        save = saving(checkpoints, [])
        for step in range(1, 10):
            with monkeypatch.context() as patched:
                if step % 2:
                    broken_disk(patched)
                save.after(step, must_end=False)
        assert (save.newest, save.failed) == (8, 1)


def test_finished_weights_that_cannot_be_saved_are_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as checkpoints:
        save = saving(checkpoints, [], steps=2)
        save.after(1, must_end=False)
        broken_disk(monkeypatch)
        with pytest.raises(Interruption, match="the next attempt continues from it"):
            save.after(2, must_end=False)


def test_a_save_is_due_when_the_last_is_long_ago_however_few_steps_there_were(tmp_path: Path) -> None:
    now = 0.0
    with opened(tmp_path) as checkpoints:
        save = saving(checkpoints, [])
        save.every, save.minutes, save.clock = 1000, 2.0, lambda: now
        due = []
        for step, now in enumerate((5, 100, 124, 126, 200, 243, 247), start=1):  # noqa: B007 - the clock reads it
            due.append(save.is_due())
            save.after(step, must_end=False, is_due=due[-1])
        assert due == [False, False, False, True, False, False, True]
        assert save.newest == 7
