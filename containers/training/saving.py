"""Saving as a training continues, and leaving it early: every rank calls the same after the same step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import torch

from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, SaveFailed
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.errors import Interruption
from slipway.containers.training.agreement import summed
from slipway.containers.training.shutdown_watch import ShutdownWatch
from slipway.containers.training.state import TensorPiece, encode


class Saved(Protocol):
    def pieces(self) -> Iterable[TensorPiece]:
        """Return what this rank saves."""


MOST_FAILED = 3  # saves in a row: by then what trains on is lost when it ends


@dataclass(slots=True, kw_only=True)
class Saving:
    engine: Saved
    checkpoints: Checkpoints | None
    ending: ShutdownWatch
    every: int  # steps
    minutes: float  # since the last save: whichever comes first
    steps: int  # of the whole training
    place: torch.device
    say: Callable[[str], None]
    newest: int = 0  # the step that was saved last, or begun with
    failed: int = 0  # saves in a row
    clock: Callable[[], float] = time.monotonic
    _tried_at: float | None = None

    def is_due(self) -> bool:
        """Return True if the last try to save, or the first question, is long ago: one rank asks for all."""
        if self._tried_at is None:
            self._tried_at = self.clock()
        return self.clock() - self._tried_at >= self.minutes * 60

    def after(self, step: int, *, must_end: bool, is_due: bool = False, cursor: Json = None) -> None:
        """Save if it is time; raise Interruption if a rank was told to end and steps are left."""
        if must_end and step < self.steps:
            self._leave(step, cursor)
        if is_due or step % self.every == 0 or step == self.steps:
            self._save(step, cursor)
            self._tried_at = self.clock()

    def _save(self, step: int, cursor: Json) -> None:
        """Save one checkpoint. A failure costs this checkpoint and not the training, unless they go on."""
        if self.checkpoints is None:
            return
        began = time.perf_counter()
        try:
            self.checkpoints.save(step, encode(self.engine.pieces()), cursor=cursor)
        except SaveFailed as error:
            self._failed(step, error)
            return
        seconds = time.perf_counter() - began
        self.ending.longest_save_seconds = max(self.ending.longest_save_seconds, seconds)
        self.newest, self.failed = step, 0
        self.say(f"saved step {step} in {seconds:.1f} s")

    def _failed(self, step: int, error: SaveFailed) -> None:
        """Say so; end resumably where no later save would keep what was trained."""
        self.failed += 1
        if step < self.steps and self.failed < MOST_FAILED:
            self.say(f"warning: {error}")
            return
        raise Interruption(
            f"{error}; that was save {self.failed} in a row to fail, and the newest is of step {self.newest}",
            hint="make room there: the next attempt continues from it",
        ) from error

    def _leave(self, step: int, cursor: Json) -> None:
        without = torch.tensor([float(not self.ending.has_time_to_save())], device=self.place)
        if not summed(without)[0]:
            self._save(step, cursor)
        raise Interruption(
            f"asked to end after step {step} of {self.steps}; saved up to step {self.newest}",
            hint="the next attempt continues from there",
        )
