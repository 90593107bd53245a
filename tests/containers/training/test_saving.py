"""A failed save costs one checkpoint; repeated failures end the training while it can resume."""

from __future__ import annotations

import errno
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Training
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.checkpoint.storage import Parts, UnpublishedStep
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.runtime.errors import RESUMABLE_EXIT_CODE, Interruption
from slipway.containers.training.saving import MOST_FAILED, HasPieces, Saving, ShutdownWatch
from slipway.containers.training.state import WEIGHTS, HostCopy, SavedState, TensorPiece

pytest.importorskip("torch")

CONTRACT = read_contract({})


class OneTensor:
    def __init__(self) -> None:
        self.weights = torch.ones(4)

    def pieces(self) -> list[TensorPiece]:
        return [TensorPiece.whole(WEIGHTS, "w", self.weights)]


class GatedFolder(CheckpointFolder):
    """Let a test delay writes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.gate = threading.Event()
        self.begun: list[int] = []

    def write(self, draft: UnpublishedStep, rank: int, parts: Parts, moved: Callable[[], None]) -> None:
        self.begun.append(draft.step)
        assert self.gate.wait(60)
        super().write(draft, rank, parts, moved)


def saving(
    checkpoints: Checkpoints, said: list[str], steps: int = 100, engine: HasPieces | None = None
) -> Saving:
    return Saving(
        engine=engine or OneTensor(),
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

    monkeypatch.setattr("slipway.containers.runtime.disk.write_synced", refuse)


def opened(folder: Path | CheckpointFolder) -> Checkpoints:
    storage = CheckpointFolder(folder) if isinstance(folder, Path) else folder
    return Checkpoints(storage, Training(job="bert", run="r1", attempt=1), say=lambda _: None)


def saved_weights(folder: Path) -> tuple[int, list[float]]:
    with opened(folder) as checkpoints:
        found = checkpoints.resume("required")
    assert found is not None
    weights: list[float] = SavedState(found).read(WEIGHTS, "w").tolist()
    return found.step, weights


def test_training_goes_on_while_a_save_is_written_and_does_not_change_it(tmp_path: Path) -> None:
    storage, engine, said = GatedFolder(tmp_path), OneTensor(), list[str]()
    with opened(storage) as checkpoints:
        save = saving(checkpoints, said, engine=engine)
        save.every = 5
        save.after(5, must_end=False)
        for step in range(6, 10):
            engine.weights += 1
            save.after(step, must_end=False)
        assert save.newest == 0
        storage.gate.set()
    assert saved_weights(tmp_path) == (5, [1.0] * 4), "and the end of the training waited for it"


def test_a_new_save_waits_for_the_one_before(tmp_path: Path) -> None:
    storage = GatedFolder(tmp_path)
    with opened(storage) as checkpoints:
        save = saving(checkpoints, [])
        save.after(1, must_end=False)
        second = threading.Thread(target=save.after, args=(2,), kwargs={"must_end": False})
        second.start()
        second.join(0.3)
        assert storage.begun == [1]
        storage.gate.set()
        second.join()
    assert storage.begun == [1, 2]
    assert saved_weights(tmp_path)[0] == 2


def test_a_training_that_is_told_to_end_waits_for_the_save_that_runs(tmp_path: Path) -> None:
    storage = GatedFolder(tmp_path)
    with opened(storage) as checkpoints:
        save = saving(checkpoints, [])
        save.after(1, must_end=False)
        storage.gate.set()
        with pytest.raises(Interruption, match="asked to end after step 2 of 100; saved up to step 2"):
            save.after(2, must_end=True)
    assert storage.begun == [1, 2]


def test_without_the_time_for_another_save_the_one_that_runs_is_kept(tmp_path: Path) -> None:
    storage = GatedFolder(tmp_path)
    with opened(storage) as checkpoints:
        save = saving(checkpoints, [])
        save.after(1, must_end=False)
        storage.gate.set()
        save.ending = ShutdownWatch(replace(CONTRACT, deadline=time.time()))
        with pytest.raises(Interruption, match="saved up to step 1"):
            save.after(2, must_end=True)
    assert saved_weights(tmp_path)[0] == 1


def test_saves_that_go_on_failing_end_the_training_resumably(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with opened(tmp_path) as checkpoints:
        save = saving(checkpoints, said)
        save.after(1, must_end=False)
        save.settle()
        broken_disk(monkeypatch)
        for step in range(2, 2 + MOST_FAILED):
            save.after(step, must_end=False)
        with pytest.raises(
            Interruption, match=r"save 3 in a row to fail, and the newest is of step 1"
        ) as end:
            save.after(2 + MOST_FAILED, must_end=False)
    assert end.value.exit_code == RESUMABLE_EXIT_CODE
    assert [line.partition(":")[0] for line in said[1:]] == ["warning", "warning"]


def test_saves_that_failed_ask_all_ranks_to_end_at_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at the next save, which may be hours away."""
    with opened(tmp_path) as checkpoints:
        save = saving(checkpoints, [])
        broken_disk(monkeypatch)
        for step in range(1, 1 + MOST_FAILED):
            save.after(step, must_end=False)
        save.every = 1000
        while not save.must_end:
            save.after(1 + MOST_FAILED, must_end=False)
        with pytest.raises(Interruption, match="save 3 in a row"):
            save.after(2 + MOST_FAILED, must_end=True)


def test_one_save_that_fails_is_forgotten_when_the_next_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with opened(tmp_path) as checkpoints:
        save = saving(checkpoints, said)
        for step in range(1, 10):
            with monkeypatch.context() as patched:
                if step % 2:
                    broken_disk(patched)
                save.after(step, must_end=False)
                save.settle()
        assert (save.newest, save.failed) == (8, 1)


def test_finished_weights_that_cannot_be_saved_are_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as checkpoints:
        save = saving(checkpoints, [], steps=2)
        save.after(1, must_end=False)
        save.settle()
        broken_disk(monkeypatch)
        with pytest.raises(Interruption, match="the next attempt continues from it"):
            save.after(2, must_end=False)


def test_a_save_is_due_when_the_last_is_long_ago_however_few_steps_there_were(tmp_path: Path) -> None:
    now = 0.0
    with opened(tmp_path) as checkpoints:
        save = saving(checkpoints, [])
        save.every, save.minutes, save.clock = 1000, 2.0, lambda: now
        due = []
        for step, now in enumerate((5, 100, 124, 126, 200, 243, 247), start=1):  # noqa: B007 - the test's clock reads it
            due.append(save.is_due())
            save.after(step, must_end=False, is_due=due[-1])
        assert due == [False, False, False, True, False, False, True]
        save.settle()
        assert save.newest == 7


def test_what_was_taken_for_a_save_lies_in_the_buffers_of_the_one_before() -> None:
    engine, snapshot = OneTensor(), HostCopy()
    (first,) = snapshot.take(engine.pieces())
    engine.weights += 1
    (second,) = snapshot.take(engine.pieces())
    assert first.data.data_ptr() == second.data.data_ptr() != engine.weights.data_ptr()
    assert second.data.tolist() == [2.0] * 4


# A training knows when there is no time left for another step and a save.


@pytest.mark.usefixtures("own_sigterm")
def test_a_step_near_the_deadline_ends_the_training() -> None:
    contract = SimpleNamespace(deadline=1.0)
    ending = ShutdownWatch(contract)  # type: ignore[arg-type]  # it reads one field
    assert ending.is_near
    assert not ending.has_time_to_save()
    assert not ShutdownWatch(CONTRACT).is_near
    assert ShutdownWatch(CONTRACT).seconds_left() == math.inf


class PinnedTensor(torch.Tensor):  # type: ignore[misc]  # torch counts as untyped
    """Stand in for host memory that a GPU copies to by itself."""

    def is_pinned(self) -> bool:
        return True


def test_copies_from_a_gpu_are_waited_for_whichever_piece_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An engine's own number, such as fp16's loss scale, lies in host memory and comes before the weights."""
    waited: list[int] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(1))
    copy = HostCopy()
    number, weights = (TensorPiece.whole(WEIGHTS, name, torch.ones(2)) for name in ("number", "weights"))
    copy.take([number])
    assert not waited
    copy._buffers[(WEIGHTS, "weights", weights.box)] = torch.zeros(2).as_subclass(PinnedTensor)
    copy.take([number, weights])
    assert waited
