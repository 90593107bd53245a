"""A rank verifies what it reads to resume: every byte, each once, with the same outcome on all ranks."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Take
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.checkpoint.resume import NoGoodCheckpoint, OtherTraining, Resumed
from slipway.containers.runtime.checkpoint.storage import Stretches, Unreachable
from slipway.containers.runtime.collective import Collective
from slipway.containers.runtime.errors import Interruption, Refusal
from tests.containers.runtime.checkpoint.test_checkpoints import flip
from tests.containers.runtime.saving import (
    FAILED,
    expected,
    in_processes,
    opened,
    quiet,
    save_together,
    saved,
    stored,
    training,
)

FILE = "rank-00000.safetensors"


class CountingFolder(CheckpointFolder):
    """Record which parts of files are read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.stretches: list[tuple[int, str, tuple[int, int]]] = []

    def read(
        self, step: int, name: str, stretches: Stretches, rooms: Sequence[memoryview] = ()
    ) -> Iterator[memoryview]:
        self.stretches += [(step, name, one) for one in stretches]
        return super().read(step, name, stretches, rooms)


def taking(kept: dict[int, bytes], rank: int = 0) -> Take:
    """Return a reader of all that a rank saved."""

    def take(found: Resumed) -> None:
        kept.clear()
        kept[found.step] = stored(found, "layer.weight", rank)
        stored(found, f"count.{rank}", rank)

    return take


def resumed(folder: Path, take: Take) -> Resumed | None:
    with opened(folder, 9) as checkpoints:
        return checkpoints.resume("auto", take=take)


def test_what_is_taken_is_read_once_and_so_is_the_rest(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    storage = CountingFolder(tmp_path)
    with opened(tmp_path, 9) as checkpoints:
        checkpoints.storage = storage
        found = checkpoints.resume(take=taking({}))
    assert found is not None
    read = sorted(stretch for _, _, stretch in storage.stretches)
    assert [start for start, _ in read] == [0, *(end for _, end in read[:-1])], "a byte twice, or never"
    assert read[-1][1] == found.manifest.ranks[0].bytes


def test_any_flipped_bit_is_found_whether_it_is_asked_for_or_not(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    path, kept = tmp_path / "step-0000000002" / FILE, dict[int, bytes]()
    whole = path.read_bytes()
    takes: list[Callable[[Resumed], None]] = [taking(kept), lambda found: None]
    for take in takes:
        for offset in range(0, len(whole), len(whole) // 20):
            flip(path, offset)
            found = resumed(tmp_path, take)
            assert found is not None, offset
            assert found.step == 1, offset
            path.write_bytes(whole)
    assert kept == {1: expected(1).tobytes()}


def test_only_bad_checkpoints_are_a_failure_whatever_was_taken_of_them(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    flip(tmp_path / "step-0000000001" / FILE, -1)
    with pytest.raises(NoGoodCheckpoint, match=r"step-0000000001: .*sha256"):
        resumed(tmp_path, taking({}))


def test_what_one_rank_cannot_read_all_ranks_leave_for_the_one_before(tmp_path: Path) -> None:
    def resuming(collective: Collective) -> int:
        kept = dict[int, bytes]()
        with opened(tmp_path, 2, collective=collective) as checkpoints:
            found = checkpoints.resume("required", take=taking(kept, collective.rank))
        is_right = found is not None and kept == {1: expected(1, collective.rank).tobytes()}
        return found.step if found is not None and is_right else FAILED

    save_together(3, tmp_path, 1, 2)
    flip(tmp_path / "step-0000000002" / "rank-00002.safetensors", -1)
    assert in_processes(3, resuming) == [1, 1, 1]


def test_of_another_training_nothing_is_taken(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    kept = dict[int, bytes]()
    other = training(2, config={"hidden": 9, "layers": 2})
    with (
        Checkpoints(CheckpointFolder(tmp_path), other, say=quiet) as checkpoints,
        pytest.raises(OtherTraining, match=r"config\.hidden"),
    ):
        checkpoints.resume(take=taking(kept))
    assert kept == {}


def test_what_one_rank_may_not_take_every_rank_refuses(tmp_path: Path) -> None:
    def resuming(collective: Collective) -> int:
        def take(found: Resumed) -> None:
            if collective.rank == 1:
                raise Refusal("it holds another model")

        with opened(tmp_path, 2, collective=collective) as checkpoints:
            try:
                checkpoints.resume(take=take)
            except Refusal as refused:
                return 50 if "another model" in str(refused) else FAILED
        return FAILED

    save_together(2, tmp_path, 1)
    assert in_processes(2, resuming) == [50, 50]


@pytest.mark.parametrize("name", ["manifest", "sizes", "read"])
@pytest.mark.parametrize("error", [Unreachable("no route"), OSError(errno.ESTALE, "Stale file handle")])
def test_a_place_that_does_not_answer_while_it_is_taken_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, name: str
) -> None:
    def lost(*_: object) -> object:
        raise error

    saved(tmp_path, 1, 2)
    with opened(tmp_path, 9) as checkpoints:
        monkeypatch.setattr(CheckpointFolder, name, lost)
        with pytest.raises(Interruption, match=r"no route|Stale file handle"):
            checkpoints.resume(take=taking({}))
