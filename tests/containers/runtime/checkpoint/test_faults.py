"""A failing disk or a rival attempt does nothing to saved checkpoints."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, SaveFailed
from slipway.containers.runtime.checkpoint.folder import (
    LEASE_NAME,
    CheckpointFolder,
    Fenced,
    FolderInUse,
    FolderLease,
    Lease,
    this_process,
)
from slipway.containers.runtime.checkpoint.storage import LeaseFile
from slipway.containers.runtime.collective import Collective
from tests.containers.runtime.saving import (
    FAILED,
    in_processes,
    is_right,
    newest,
    opened,
    quiet,
    resumed,
    save,
    saved,
    stall_after_check,
    steps,
    take_over,
    training,
)


def lease_of(folder: Path) -> LeaseFile:
    return CheckpointFolder(folder).open()


def test_a_rank_that_cannot_write_fails_the_save_on_all_and_leaves_the_older_one(tmp_path: Path) -> None:
    def body(collective: Collective) -> int:
        with opened(tmp_path, collective=collective) as checkpoints:
            save(checkpoints, 1, collective.rank)
            if collective.rank == 1:
                _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
            try:
                save(checkpoints, 2, collective.rank)
            except SaveFailed as refused:
                return 50 if "rank 1" in str(refused) else FAILED
        return 0

    assert in_processes(2, body) == [50, 50]
    assert steps(tmp_path) == ["step-0000000001"]


@contextmanager
def small_disk(folder: Path, options: str = "size=256k") -> Iterator[None]:
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk here: {mounted.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_full_disk_leaves_the_older_checkpoint_and_one_clear_line(tmp_path: Path) -> None:
    """F15, BI: the disk fills while saving, training continues, and saves again when there is room."""
    folder = tmp_path / "small"
    with small_disk(folder), opened(folder) as checkpoints:
        save(checkpoints, 1)
        filler = folder / "filler"
        with suppress(OSError):
            filler.write_bytes(bytes(1 << 20))
        with pytest.raises(SaveFailed, match="No space left on device") as refused:
            save(checkpoints, 2, count=20_000)
        assert "\n" not in str(refused.value)
        assert steps(folder) == ["LEASE.json", "filler", "step-0000000001"]
        filler.unlink()
        save(checkpoints, 2)
        found = checkpoints.resume("required")
        assert found is not None
        assert found.step == 2


def test_a_full_disk_makes_room_from_the_oldest_good_checkpoint(tmp_path: Path) -> None:
    """Two ranks of two kept steps: a third does not fit beside both, so the first one goes."""
    folder, said = tmp_path / "small", tmp_path / "said"

    def body(collective: Collective) -> int:
        with Checkpoints(
            CheckpointFolder(folder),
            training(),
            collective=collective,
            say=lambda line: print(line, file=said.open("a")),
        ) as checkpoints:
            for step in (1, 2, 3):
                save(checkpoints, step, collective.rank, count=12_000)
        return 50

    with small_disk(folder):
        assert in_processes(2, body) == [50, 50]
        assert steps(folder) == ["step-0000000002", "step-0000000003"]
        with opened(folder) as checkpoints:
            found = checkpoints.resume("required", reshard=True)
        assert found is not None
        assert is_right(found, rank=1, count=12_000)
    assert said.read_text() == "the disk is full: discarded step-0000000001 and saves again\n"


def test_a_disk_without_inodes_leaves_the_older_checkpoint(tmp_path: Path) -> None:
    """F16"""
    folder = tmp_path / "small"
    with small_disk(folder, "nr_inodes=16"), opened(folder) as checkpoints:
        save(checkpoints, 1)
        with suppress(OSError):
            for number in range(16):
                (folder / f"filler-{number}").touch()
        with pytest.raises(SaveFailed, match="No space left on device"):
            save(checkpoints, 2)
        for filler in folder.glob("filler-*"):
            filler.unlink()
        assert steps(folder) == ["LEASE.json", "step-0000000001"]
        save(checkpoints, 2)
        assert newest(folder) == 2


def test_a_disk_that_became_read_only_leaves_the_older_checkpoint(tmp_path: Path) -> None:
    """F16"""
    folder = tmp_path / "small"
    with small_disk(folder), opened(folder) as checkpoints:
        save(checkpoints, 1)
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        with pytest.raises(SaveFailed, match="Read-only file system"):
            save(checkpoints, 2)
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
        save(checkpoints, 2)
        assert newest(folder) == 2


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize("call", ["fsync", "rename", "write"])
def test_a_failing_disk_leaves_the_older_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    """F16"""
    saved(tmp_path, 1)

    def failing(*arguments: object, **options: object) -> None:
        raise OSError(code, os.strerror(code))

    with opened(tmp_path, 2) as checkpoints:
        with monkeypatch.context() as broken:
            broken.setattr(os, call, failing)
            with pytest.raises(SaveFailed, match=os.strerror(code)):
                save(checkpoints, 2)
        found = checkpoints.resume("required")
        assert found is not None
        assert found.step == 1


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SaveFailed, match="cannot be used: Not a directory"):
        Checkpoints(CheckpointFolder(tmp_path / "file" / "below"), training()).__enter__()


def test_a_stale_attempt_cannot_publish(tmp_path: Path) -> None:
    """F11, F12: the cut-off attempt still runs when its successor has taken over."""
    with opened(tmp_path) as stale:
        save(stale, 1)
        with opened(tmp_path, 2) as fresh:
            with pytest.raises(Fenced, match="attempt 2"):
                save(stale, 2)
            assert steps(tmp_path) == ["LEASE.json", "step-0000000001"]
            save(fresh, 3)
    assert newest(tmp_path) == 3


def test_what_a_stale_attempt_has_begun_is_gone_when_it_wakes_between_check_and_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process stopped right after its check, and continued after a takeover, publishes nothing."""
    with opened(tmp_path) as stale:
        stall_after_check(monkeypatch, lambda: take_over(opened(tmp_path, 2)))
        with pytest.raises(SaveFailed):
            save(stale, 2)
    assert not [name for name in steps(tmp_path) if name.startswith("step")]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_disk_without_hard_links_holds_a_lease_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def without_links(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", without_links)
    with opened(tmp_path, lease_seconds=0.5), pytest.raises(FolderInUse):
        Checkpoints(CheckpointFolder(tmp_path), training(run="r2"), say=quiet).__enter__()
    saved(tmp_path, 1)
    assert steps(tmp_path) == ["step-0000000001"]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_who_wakes_between_check_and_rename_leaves_the_step_that_its_successor_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    saved(tmp_path, 1)
    if is_damaged:
        saved(tmp_path, 2)
        (tmp_path / "step-0000000002" / "rank-00000.safetensors").write_bytes(b"")
    with opened(tmp_path) as stale:
        stall_after_check(monkeypatch, lambda: saved(tmp_path, 2, attempt=2))
        with pytest.raises(SaveFailed):
            save(stale, 2)
    found = resumed(tmp_path)
    assert found is not None
    assert (found.step, found.manifest.attempt) == (2, 2)
    assert is_right(found)


def test_a_damaged_step_that_is_saved_again_leaves_nothing_behind(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    (tmp_path / "step-0000000002" / "rank-00000.safetensors").write_bytes(b"")
    saved(tmp_path, 2, attempt=2)
    assert newest(tmp_path) == 2
    assert steps(tmp_path) == ["step-0000000001", "step-0000000002"]
    assert steps(tmp_path / "step-0000000002") == ["MANIFEST.json", "rank-00000.safetensors"]


def test_a_lease_that_cannot_be_asked_for_fails_one_save_and_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(lease: FolderLease) -> bytes | None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with opened(tmp_path) as checkpoints:
        with monkeypatch.context() as broken:
            broken.setattr(FolderLease, "read", failing)
            with pytest.raises(SaveFailed, match="Stale file handle"):
                save(checkpoints, 1)
        save(checkpoints, 2)
    assert steps(tmp_path) == ["step-0000000002"]


def test_a_storage_that_fails_while_a_lease_is_watched_does_not_free_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(path: Path) -> FileIO:
        looked.append(path.name)
        if looked.count(LEASE_NAME) > 1:  # first it reads whose the lease is
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path)

    looked: list[str] = []
    real = disk.open_existing
    with opened(tmp_path, lease_seconds=0.5) as holder:
        with monkeypatch.context() as broken:
            broken.setattr(disk, "open_existing", failing)
            with pytest.raises(SaveFailed, match="cannot be used: Input/output error"):
                Checkpoints(CheckpointFolder(tmp_path), training(run="r2"), say=quiet).__enter__()
        save(holder, 1)


def test_a_process_of_another_machine_is_not_taken_for_a_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each instance of SageMaker is called algo-1, and its kernel numbers the container's namespace alike."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    real, elsewhere = Path.read_text, "4f6c1f0e-0000-4000-8000-000000000000\n"
    with monkeypatch.context() as other:
        other.setattr(Path, "read_text", lambda path: elsewhere if path.name == "boot_id" else real(path))
        other.setattr(os, "getpid", lambda: ended.pid)
        lease = Lease(lease_of(tmp_path), this_process("r1", 1, 0.5), where="here")
    with pytest.raises(FolderInUse, match="run r1, attempt 1"):
        Checkpoints(CheckpointFolder(tmp_path), training(run="r2"), say=quiet).__enter__()
    lease.check()
    lease.release()


def test_an_older_attempt_is_refused_at_the_door(tmp_path: Path) -> None:
    with opened(tmp_path, 3), pytest.raises(Fenced, match="this is attempt 2"):
        opened(tmp_path, 2).__enter__()


@pytest.mark.parametrize("attempt", [1, 2])
def test_two_jobs_on_one_folder_are_refused(tmp_path: Path, attempt: int) -> None:
    """BI-127"""
    with opened(tmp_path, lease_seconds=0.5), pytest.raises(FolderInUse, match="run r1, attempt 1"):
        Checkpoints(CheckpointFolder(tmp_path), training(attempt, run="r2"), say=quiet).__enter__()


def test_a_live_lease_is_not_taken_on_nfs_which_may_keep_a_file_s_times_until_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[Path, os.stat_result] = {}
    real = Path.stat

    def stat(path: Path, **given: Any) -> os.stat_result:
        found = real(path, **given)
        return kept.setdefault(path, found) if path.name == LEASE_NAME else found

    monkeypatch.setattr(Path, "stat", stat)
    with opened(tmp_path, lease_seconds=0.5), pytest.raises(FolderInUse, match="run r1, attempt 1"):
        Checkpoints(CheckpointFolder(tmp_path), training(run="r2"), say=quiet).__enter__()


def test_the_lease_of_a_dead_process_is_taken_at_once(tmp_path: Path) -> None:
    def body(collective: Collective) -> int:
        opened(tmp_path).__enter__()
        return 0

    assert in_processes(1, body) == [0]
    assert (tmp_path / "LEASE.json").exists()
    saved(tmp_path, 1)


def test_the_lease_of_a_dead_host_is_taken_when_nobody_renews_it(tmp_path: Path) -> None:
    gone = {
        "run": "r0",
        "attempt": 4,
        "nonce": "x",
        "seconds": 0.2,
        "host": "elsewhere",
        "processes": "pid:[1]",
        "pid": 1,
    }
    (tmp_path / "LEASE.json").write_text(json.dumps(gone))
    saved(tmp_path, 1)
    assert resumed(tmp_path) is not None


OTHER_TYPES = (
    b'{"run": "r1", "attempt": "2", "nonce": 1, "seconds": null, "host": 1, "processes": "", "pid": ""}'
)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b"[" * 5000, OTHER_TYPES])
def test_a_lease_that_nobody_can_read_is_taken_when_nobody_renews_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "LEASE.json").write_bytes(content)
    saved(tmp_path, 1, lease_seconds=0.2)
    assert steps(tmp_path) == ["step-0000000001"]


def test_a_release_does_not_take_the_lease_of_the_next_holder(tmp_path: Path) -> None:
    older = Lease(lease_of(tmp_path), this_process("r1", 1), where="here")
    newer = Lease(lease_of(tmp_path), this_process("r1", 2), where="here")
    older.release()
    newer.check()
    newer.release()
    assert steps(tmp_path) == []
