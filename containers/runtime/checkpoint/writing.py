"""Save a checkpoint: each rank writes its file, and when all have, rank 0 publishes the step.

Everything here is collective. A rank that fails reports it to all: if it raised alone, the others would hang.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from slipway.containers.runtime.checkpoint import manifest
from slipway.containers.runtime.checkpoint import storage as pieces
from slipway.containers.runtime.checkpoint.folder import Fenced, FolderInUse, Lease
from slipway.containers.runtime.checkpoint.manifest import (
    DamagedCheckpoint,
    Manifest,
    OtherFormat,
    RankFile,
    WrongIndex,
    assemble,
)
from slipway.containers.runtime.checkpoint.resume import (
    Training,
    check_content,
    check_sizes,
    is_of_other_format,
    read_manifest,
)
from slipway.containers.runtime.checkpoint.storage import (
    FilePiece,
    Parts,
    Storage,
    UnpublishedStep,
    place_of,
    reason,
    step_name,
    write_pieces,
)
from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.errors import Interruption, Refusal
from slipway.containers.runtime.observe.progress import SAVING, WAITING


class SaveFailed(Refusal):
    """This checkpoint was not saved; older ones are intact, and training may continue."""


# Kinds of errors that all ranks raise if rank 0 does.
_KINDS = {kind.__name__: kind for kind in (SaveFailed, Fenced, FolderInUse, OtherFormat, Interruption)}


def by_main(collective: Collective, storage: Storage, action: Callable[[], str]) -> str:
    """Run `action` on rank 0; all ranks learn how it went, and raise together if it failed."""
    answer: Json = None
    failure: Refusal | None = None
    if collective.rank == 0:
        try:
            answer = {"value": action()}
        except OSError as error:
            failure = SaveFailed(f"{storage} cannot be used: {reason(error)}")
        except Refusal as error:
            failure = error
    if failure is not None:
        answer = {"error": str(failure), "kind": type(failure).__name__}
    told = collective.gather(answer)[0]
    if failure is not None:
        raise failure
    assert isinstance(told, dict), f"rank 0 answered {told!r}"
    if "error" in told:
        raise _KINDS.get(str(told["kind"]), Refusal)(f"rank 0: {told['error']}")
    return str(told["value"])


@dataclass(slots=True, kw_only=True)
class Writer:
    """Write and publish checkpoints of one training, and discard the oldest."""

    storage: Storage
    training: Training
    collective: Collective
    keep: int
    say: Callable[[str], None]
    token: str
    lease: Lease | None  # rank 0's
    at: Callable[[str], None]  # told where the save stands
    moved: Callable[[], None]  # and that it goes on there
    known_bad: frozenset[int] = field(default_factory=frozenset)

    def save(self, step: int, held: Sequence[FilePiece], cursor: Json) -> None:
        draft = UnpublishedStep(step, self.training.attempt, self.token)
        reports = self._reports(draft, held)
        if any(map(_is_full, reports)) and self._make_room():
            reports = self._reports(draft, held)
        by_main(self.collective, self.storage, lambda: self._finish(draft, reports, cursor))

    def _reports(self, draft: UnpublishedStep, held: Sequence[FilePiece]) -> list[Json]:
        report = self._write(draft, held)
        self.at(f"{WAITING}step {draft.step}")
        return self.collective.gather(report)

    def _make_room(self) -> bool:
        """Discard all but the newest good checkpoint, and say so; return False if there is no other."""
        discarded = by_main(self.collective, self.storage, lambda: ", ".join(map(step_name, self._prune(1))))
        if discarded and self.collective.rank == 0:
            self.say(f"the disk is full: discarded {discarded} and saves again")
        return bool(discarded)

    def _write(self, draft: UnpublishedStep, held: Sequence[FilePiece]) -> Json:
        rank = self.collective.rank
        name = self.storage.file_name(draft, rank)
        self.at(f"{SAVING}{place_of(self.storage, draft.step)}, {name}")

        def write(parts: Parts) -> None:
            self.storage.write(draft, rank, parts, self.moved)

        try:
            return {"name": name, **write_pieces(held, write)}
        except OSError as error:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            return {"error": f"{name} was not written: {reason(error)}", "is_full": is_full}
        except Refusal as error:
            return {"error": f"{name} was not written: {error}"}

    def _finish(self, draft: UnpublishedStep, reports: list[Json], cursor: Json) -> str:
        self.at(f"{SAVING}{place_of(self.storage, draft.step)}")
        try:
            self._publish(draft, self._manifest(draft.step, reports, cursor))
        except (OSError, SaveFailed, Fenced, DamagedCheckpoint, OtherFormat, WrongIndex) as error:
            self.storage.abandon(draft)
            if isinstance(error, (Fenced, OtherFormat)):
                raise
            why = reason(error) if isinstance(error, OSError) else str(error)
            raise SaveFailed(
                f"step {draft.step} was not saved in {self.storage}: {why}; older ones are intact"
            ) from error
        self._prune(self.keep)
        return step_name(draft.step)

    def _manifest(self, step: int, reports: list[Json], cursor: Json) -> Manifest:
        entries = [report for report in reports if isinstance(report, dict)]
        failed = [f"rank {rank}: {entry['error']}" for rank, entry in enumerate(entries) if "error" in entry]
        if failed:
            raise SaveFailed("; ".join(failed))
        held = [entry.pop("pieces") for entry in entries]
        return Manifest(
            step=step,
            job=self.training.job,
            run=self.training.run,
            attempt=self.training.attempt,
            world=self.collective.world,
            topology=dict(self.training.topology),
            config=dict(self.training.config),
            cursor=cursor,
            chunk_bytes=pieces.CHUNK_BYTES,
            ranks=tuple(RankFile(**entry) for entry in entries),  # type: ignore[arg-type]  # as _write reports
            tensors=assemble(held),  # type: ignore[arg-type]  # likewise
        )

    def _publish(self, draft: UnpublishedStep, record: Manifest) -> None:
        assert self.lease is not None, "checkpoints are saved inside `with`"
        check_sizes(self.storage, draft, record)  # a folder that is not shared shows only our own
        if draft.step in self.storage.steps() and self._is_good(draft.step):
            self.storage.abandon(draft)  # this step was saved before, and still verifies
            return
        self.storage.publish(draft, manifest.encode(record), self.lease.check)

    def _is_good(self, step: int) -> bool:
        """Return True if this step is saved and sound; raise OtherFormat rather than overwrite what is
        not understood."""
        try:
            record = read_manifest(self.storage, step)
            check_sizes(self.storage, step, record)
            for rank in range(record.world):
                check_content(self.storage, record, rank, self.moved)
        except DamagedCheckpoint:
            return False
        return True

    def _prune(self, keep: int) -> list[int]:
        """Discard all but the newest good checkpoints and what another Slipway saved; return the steps.

        A good checkpoint has a valid manifest and the right file sizes: reading all bytes at every save would
        cost too much.
        """
        steps = self.storage.steps()
        good = [step for step in steps if self._looks_good(step)]
        if len(good) <= keep:
            return []
        discarded = []
        for step in steps:
            if step < good[keep - 1] and not is_of_other_format(self.storage, step):
                self.moved()
                self.storage.discard(step)
                discarded.append(step)
        return discarded

    def _looks_good(self, step: int) -> bool:
        try:
            check_sizes(self.storage, step, read_manifest(self.storage, step))
        except (DamagedCheckpoint, OtherFormat):
            return False
        return step not in self.known_bad


def _is_full(report: Json) -> bool:
    return isinstance(report, dict) and bool(report.get("is_full"))
