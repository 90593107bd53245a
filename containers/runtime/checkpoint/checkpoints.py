"""Checkpoints that any crash leaves readable: publish in one action, resume from the newest that verifies.

Every rank writes its file into a draft; when all have, rank 0 publishes the manifest with their digests. In a
folder that is one rename, and in a bucket one conditional write. Nothing points to "the latest": resuming
verifies on all ranks, and takes the newest on which they agree. Every node must see the same storage.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from slipway.containers.runtime.checkpoint.folder import DEFAULT_SECONDS, Lease, this_process
from slipway.containers.runtime.checkpoint.resume import Mode, Resumed, Search, Take, Training
from slipway.containers.runtime.checkpoint.storage import (
    LARGEST_STEP,
    FilePiece,
    Storage,
    Unreachable,
    reason,
)
from slipway.containers.runtime.checkpoint.writing import SaveFailed, Writer, by_main
from slipway.containers.runtime.collective import ALONE, Collective, Json
from slipway.containers.runtime.errors import Interruption, Refusal
from slipway.containers.runtime.observe.progress import Heartbeat

__all__ = ["FEWEST_KEPT", "Checkpoints", "Mode", "Resumed", "SaveFailed", "Take", "Training"]

FEWEST_KEPT = 2  # one that verifies must survive while the next is written


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Checkpoints:
    """Save and resume one training on every rank: `with Checkpoints(…) as checkpoints`. All calls are
    collective."""

    lease_seconds = DEFAULT_SECONDS  # without a sign of life, after which another run may take the place

    def __init__(
        self,
        storage: Storage,
        training: Training,
        *,
        collective: Collective = ALONE,
        keep: int = FEWEST_KEPT,
        say: Callable[[str], None] = _say,
    ) -> None:
        if keep < FEWEST_KEPT:
            raise Refusal(f"keep is {keep}, and at least {FEWEST_KEPT} checkpoints are kept")
        self.storage = storage
        self._training = training
        self._collective = collective
        self._say = say
        self._beat = Heartbeat.of(os.environ)
        self._running: BackgroundSave | None = None
        self._progress = SaveProgress()
        self._writer = Writer(
            storage=storage,
            training=training,
            collective=collective,
            keep=keep,
            say=say,
            token="",
            lease=None,
            at=self._progress.at,
            moved=self._progress.moved,
        )

    def __enter__(self) -> Checkpoints:
        self._writer.token = by_main(self._collective, self.storage, self._open)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.finish()  # what was begun is not lost because the training ends, or fails
        except Exception as failure:  # the error that ended the training counts, not this one
            if error is None:
                raise
            self._say(f"warning: {failure}")
        finally:
            if self._writer.lease is not None:
                self._writer.lease.release()

    def resume(
        self, mode: Mode = "auto", *, reshard: bool = False, take: Take | None = None
    ) -> Resumed | None:
        """Return the newest checkpoint that verifies on all ranks, or None to start from step 0.

        `reshard` accepts another world and topology, never another config. `take` reads what this rank needs
        while it is verified (see Search).
        """
        search = Search(storage=self.storage, collective=self._collective, say=self._say, take=take)
        found = search.resume(self._training, mode, reshard=reshard)
        self._writer.known_bad = found.rejected if found else frozenset()
        return found

    def newest_of(self, storage: Storage, *, take: Take | None = None) -> Resumed:
        """Return the newest checkpoint of another training that verifies on all ranks, to start from."""
        return Search(storage=storage, collective=self._collective, say=self._say, take=take).newest()

    def begin(self, step: int, pieces: Sequence[FilePiece], *, cursor: Json = None) -> None:
        """Begin to save and publish one checkpoint in the background. What the pieces hold must not change
        before `finish`.

        All ranks' pieces together are every tensor exactly once; `cursor` is rank 0's and counts for all. The
        ranks' wire must be the checkpoints' own, as the training goes on meanwhile.
        """
        if type(step) is not int or not 0 <= step <= LARGEST_STEP:
            raise Refusal(f"step is {step!r}, and must be a whole number from 0 to {LARGEST_STEP}")
        assert self._running is None, "a new save waits for the one before"
        held = list(pieces)
        self._running = BackgroundSave(step, lambda: self._writer.save(step, held, cursor), self._progress)

    @property
    def is_over(self) -> bool:
        """Return True if a save was begun and has ended, well or not: `finish` then waits for nothing."""
        return self._running is not None and self._running.is_over

    def finish(self) -> Saved | None:
        """Wait for the save that was begun, if one was; raise SaveFailed on every rank if any rank failed."""
        if self._running is None:
            return None
        running, self._running = self._running, None
        was_over = running.is_over
        try:
            return running.wait(self._beat)
        finally:
            if not was_over:
                self._beat.at(f"going on after it saved step {running.step}")

    def save(self, step: int, pieces: Sequence[FilePiece], *, cursor: Json = None) -> None:
        """Save one checkpoint and wait for it."""
        self.begin(step, pieces, cursor=cursor)
        self.finish()

    def _open(self) -> str:
        try:
            file = self.storage.open()
            holder = this_process(self._training.run, self._training.attempt, self.lease_seconds)
            self._writer.lease = Lease(file, holder, where=str(self.storage))
            self.storage.sweep()
            return holder.nonce
        except Unreachable as error:
            if error.lasts:
                raise
            raise Interruption(f"{self.storage} cannot be used now: {reason(error)}") from None


# A save beside the training: a thread writes, hashes and publishes, and its end is asked for, never told.
# The thread leaves the rank's heartbeat alone: only who waits for the save shows where it stands.
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Tell what a save that worked has done."""

    step: int
    seconds: float


@dataclass(slots=True)
class SaveProgress:
    """Hold where a save stands, and how often it has moved."""

    where: str = ""
    moves: int = 0

    def at(self, where: str) -> None:
        self.where = where
        self.moves += 1

    def moved(self) -> None:
        self.moves += 1


class BackgroundSave:
    """Run one save in a thread from now on."""

    def __init__(self, step: int, save: Callable[[], None], progress: SaveProgress) -> None:
        self.step = step
        self._save = save
        self._progress = progress
        self._began = time.monotonic()
        self._seconds = 0.0
        self._failure: BaseException | None = None
        self._over = threading.Event()
        threading.Thread(target=self._run, name=f"saving step {step}", daemon=True).start()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def wait(self, beat: Heartbeat) -> Saved:
        """Wait for the end, and show where the save stands; raise what it failed with."""
        seen = ""
        moves = self._progress.moves
        while not self._over.wait(_LOOK_SECONDS):
            if self._progress.where != seen:
                seen = self._progress.where
                beat.at(seen)
            elif self._progress.moves != moves:
                beat.again()
            moves = self._progress.moves
        if self._failure is not None:
            raise self._failure
        return Saved(step=self.step, seconds=self._seconds)

    def _run(self) -> None:
        try:
            self._save()
        except BaseException as error:  # noqa: BLE001  # whatever it is, it belongs to who waits
            self._failure = error
        self._seconds = time.monotonic() - self._began
        self._over.set()
