"""Checkpoints that any crash leaves readable: publish in one rename, resume from the newest that verifies.

Every rank writes its file into `step-N.tmp-…` and syncs it; when all have, rank 0 writes MANIFEST.json with
their digests, renames the folder and syncs its parent. Nothing points to "the latest": resuming verifies on
all ranks, and takes the newest on which they agree. The folder must be on storage that every node shares.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint import manifest
from slipway.containers.runtime.checkpoint.lease import (
    DEFAULT_SECONDS,
    Fenced,
    FolderInUse,
    Lease,
    this_process,
)
from slipway.containers.runtime.checkpoint.manifest import (
    DamagedCheckpoint,
    Manifest,
    NewerCheckpoint,
    RankFile,
)
from slipway.containers.runtime.checkpoint.resume import (
    LARGEST_STEP,
    Mode,
    Resumed,
    Search,
    Training,
    published,
    step_folder,
)
from slipway.containers.runtime.checkpoint.tensor_file import TensorData, write_tensors
from slipway.containers.runtime.collective import ALONE, Collective, Json
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.observe.heartbeat import SAVING, WAITING, Heartbeat

__all__ = ["FEWEST_KEPT", "Checkpoints", "Mode", "Resumed", "SaveFailed", "Training"]

FEWEST_KEPT = 2  # one that verifies must survive while the next is written
_LEFT_BEHIND = re.compile(r"(step-[0-9]{10}\.(tmp|trash)-|LEASE\.json\.).+", re.ASCII | re.DOTALL)


class SaveFailed(Refusal):
    """This checkpoint was not saved; the older ones are intact and training may go on."""


# Raised by rank 0 and so, alike, by all.
_KINDS = {kind.__name__: kind for kind in (SaveFailed, Fenced, FolderInUse, NewerCheckpoint)}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Checkpoints:
    """Save and resume one training on every rank: `with Checkpoints(…) as checkpoints`. All calls are
    collective."""

    def __init__(
        self,
        folder: Path,
        training: Training,
        *,
        collective: Collective = ALONE,
        keep: int = FEWEST_KEPT,
        say: Callable[[str], None] = _say,
        lease_seconds: float = DEFAULT_SECONDS,
    ) -> None:
        if keep < FEWEST_KEPT:
            raise Refusal(f"keep is {keep}, and at least {FEWEST_KEPT} checkpoints are kept")
        self.folder = folder
        self._training = training
        self._collective = collective
        self._keep = keep
        self._say = say
        self._holder = this_process(training.run, training.attempt, lease_seconds)
        self._lease: Lease | None = None
        self._token = ""
        self._known_bad: frozenset[str] = frozenset()
        self._beat = Heartbeat.of(os.environ)

    def __enter__(self) -> Checkpoints:
        self._token = self._by_main(self._open)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            self._lease.release()

    def resume(self, mode: Mode = "auto", *, reshard: bool = False) -> Resumed | None:
        """Return the newest checkpoint that verifies on all ranks, or None to start from step 0.

        `reshard` accepts another world and topology, never another config.
        """
        search = Search(folder=self.folder, collective=self._collective, say=self._say)
        found = search.resume(self._training, mode, reshard=reshard)
        self._known_bad = found.rejected if found else frozenset()
        return found

    def save(
        self, step: int, tensors: Mapping[str, TensorData], *, state: Json = None, cursor: Json = None
    ) -> Path:
        """Save and publish one checkpoint; raise SaveFailed on every rank if any rank fails.

        `state` belongs to this rank; `cursor` is rank 0's and counts for all.
        """
        if type(step) is not int or not 0 <= step <= LARGEST_STEP:
            raise Refusal(f"step is {step!r}, and must be a whole number from 0 to {LARGEST_STEP}")
        target = step_folder(self.folder, step)
        temporary = target.with_name(f"{target.name}.tmp-{self._training.attempt}-{self._token}")
        reports = self._reports(temporary, tensors, state, step)
        if any(map(_is_full, reports)) and self._make_room():
            reports = self._reports(temporary, tensors, state, step)
        self._by_main(lambda: self._finish(temporary, target, step, reports, cursor))
        self._beat.at(f"going on after it saved step {step}")
        return target

    def _by_main(self, action: Callable[[], str]) -> str:
        """Run `action` on rank 0; all ranks learn how it went, and raise together if it failed."""
        answer: Json = None
        failure: Refusal | None = None
        if self._collective.rank == 0:
            try:
                answer = {"value": action()}
            except OSError as error:
                failure = SaveFailed(f"{self.folder} cannot be used: {_reason(error)}")
            except Refusal as error:
                failure = error
        if failure is not None:
            answer = {"error": str(failure), "kind": type(failure).__name__}
        told = self._collective.gather(answer)[0]
        if failure is not None:
            raise failure
        assert isinstance(told, dict), f"rank 0 answered {told!r}"
        if "error" in told:
            raise _KINDS.get(str(told["kind"]), Refusal)(f"rank 0: {told['error']}")
        return str(told["value"])

    def _open(self) -> str:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lease = Lease(self.folder, self._holder)
        for path in list(self.folder.iterdir()):
            if _LEFT_BEHIND.fullmatch(path.name):
                self._remove(path)
        return self._holder.nonce

    def _remove(self, path: Path) -> None:
        if path.is_symlink() or not path.is_dir():
            with suppress(OSError):
                path.unlink()
        else:
            disk.discard_folder(path, self._trash(path))

    def _trash(self, path: Path) -> Path:
        step = path.name.split(".", 1)[0]
        return path.with_name(f"{step}.trash-{secrets.token_hex(6)}")

    def _reports(self, folder: Path, tensors: Mapping[str, TensorData], state: Json, step: int) -> list[Json]:
        report = self._write(folder, tensors, state)
        self._beat.at(f"{WAITING}step {step}")
        return self._collective.gather(report)

    def _make_room(self) -> bool:
        """Discard all but the newest good checkpoint, and say so; return False if there is no other."""
        discarded = self._by_main(lambda: ", ".join(self._prune(1)))
        if discarded and self._collective.rank == 0:
            self._say(f"the disk is full: discarded {discarded} and saves again")
        return bool(discarded)

    def _write(self, folder: Path, tensors: Mapping[str, TensorData], state: Json) -> Json:
        """Return a failure as a report like any other: a rank that raised here would leave the others
        waiting."""
        path = folder / manifest.file_name(self._collective.rank)
        self._beat.at(f"{SAVING}{path}")
        try:
            folder.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):
                path.unlink()  # of an earlier save of this step that failed
            written = write_tensors(path, tensors, self._beat.again)
        except OSError as error:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            return {"error": f"{path.name} was not written: {_reason(error)}", "is_full": is_full}
        except Refusal as error:
            return {"error": f"{path.name} was not written: {error}"}
        return {"name": path.name, "bytes": written.bytes, "sha256": written.sha256, "state": state}

    def _finish(self, temporary: Path, target: Path, step: int, reports: list[Json], cursor: Json) -> str:
        self._beat.at(f"{SAVING}{target}")
        try:
            self._publish(temporary, target, self._manifest(step, reports, cursor))
        except (OSError, SaveFailed, Fenced, DamagedCheckpoint, NewerCheckpoint) as error:
            disk.discard_folder(temporary, self._trash(temporary))
            if isinstance(error, (Fenced, NewerCheckpoint)):
                raise
            why = _reason(error) if isinstance(error, OSError) else str(error)
            raise SaveFailed(
                f"step {step} was not saved in {self.folder}: {why}; older ones are intact"
            ) from error
        self._prune(self._keep)
        return target.name

    def _manifest(self, step: int, reports: list[Json], cursor: Json) -> Manifest:
        entries = [report for report in reports if isinstance(report, dict)]
        failed = [f"rank {rank}: {entry['error']}" for rank, entry in enumerate(entries) if "error" in entry]
        if failed:
            raise SaveFailed("; ".join(failed))
        return Manifest(
            step=step,
            job=self._training.job,
            run=self._training.run,
            attempt=self._training.attempt,
            world=self._collective.world,
            topology=dict(self._training.topology),
            config=dict(self._training.config),
            cursor=cursor,
            ranks=tuple(RankFile(**entry) for entry in entries),  # type: ignore[arg-type]  # as _write reports
        )

    def _publish(self, temporary: Path, target: Path, record: Manifest) -> None:
        assert self._lease is not None, "checkpoints are saved inside `with`"
        for file in record.ranks:
            manifest.check_size(temporary, file)  # a folder that is not shared shows only our own
        disk.write_new(temporary / manifest.NAME, [manifest.encode(record)])
        disk.sync_folder(temporary)
        if target.exists() and self._is_good(target):
            disk.discard_folder(
                temporary, self._trash(temporary)
            )  # this step was saved before, and still verifies
            return
        self._lease.check()
        if target.exists():
            disk.discard_folder(target, self._trash(target))
        temporary.rename(target)
        disk.sync_folder(self.folder)

    def _is_good(self, target: Path) -> bool:
        """Return True if this step is saved and sound; raise NewerCheckpoint rather than overwrite what is
        not understood."""
        try:
            for file in manifest.read_manifest(target).ranks:
                manifest.check_content(target, file)
                self._beat.again()
        except DamagedCheckpoint:
            return False
        return True

    def _prune(self, keep: int) -> list[str]:
        """Discard all but the newest good checkpoints and what a newer Slipway saved; return the names.

        A good checkpoint has a valid manifest and the right file sizes: reading all bytes at every save would
        cost too much.
        """
        good = [path for path in published(self.folder).values() if self._looks_good(path)]
        if len(good) <= keep:
            return []
        discarded = []
        for path in published(self.folder).values():
            if path.name < good[keep - 1].name and not manifest.is_newer(path):
                self._beat.again()
                disk.discard_folder(path, self._trash(path))
                discarded.append(path.name)
        return discarded

    def _looks_good(self, folder: Path) -> bool:
        try:
            for file in manifest.read_manifest(folder).ranks:
                manifest.check_size(folder, file)
        except (DamagedCheckpoint, NewerCheckpoint):
            return False
        return folder.name not in self._known_bad


def _is_full(report: Json) -> bool:
    return isinstance(report, dict) and bool(report.get("is_full"))


def _reason(error: OSError) -> str:
    return f"{os.strerror(error.errno or 0)}" + (f" ({error.filename})" if error.filename else "")
