"""Saving as a training continues, and leaving it early: every rank calls the same after the same step."""

from __future__ import annotations

import time
from collections.abc import Callable
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
    def pieces(self) -> list[TensorPiece]:
        """Return what this rank saves."""


@dataclass(slots=True, kw_only=True)
class Saving:
    engine: Saved
    checkpoints: Checkpoints | None
    ending: ShutdownWatch
    every: int
    steps: int  # of the whole training
    place: torch.device
    say: Callable[[str], None]
    newest: int = 0  # the step that was saved last, or begun with

    def after(self, step: int, *, must_end: bool, cursor: Json = None) -> None:
        """Save if it is time; raise Interruption if a rank was told to end and steps are left."""
        if must_end and step < self.steps:
            self._leave(step, cursor)
        if step % self.every == 0 or step == self.steps:
            self._save(step, cursor)

    def _save(self, step: int, cursor: Json) -> None:
        """Save one checkpoint. A failure costs this checkpoint, not the training: the older ones are
        intact."""
        if self.checkpoints is None:
            return
        began = time.perf_counter()
        try:
            self.checkpoints.save(step, encode(self.engine.pieces()), cursor=cursor)
        except SaveFailed as error:
            if step == self.steps:
                raise
            self.say(f"warning: {error}")
            return
        seconds = time.perf_counter() - began
        self.ending.longest_save_seconds = max(self.ending.longest_save_seconds, seconds)
        self.newest = step
        self.say(f"saved step {step} in {seconds:.1f} s")

    def _leave(self, step: int, cursor: Json) -> None:
        without = torch.tensor([float(not self.ending.has_time_to_save())], device=self.place)
        if not summed(without)[0]:
            self._save(step, cursor)
        raise Interruption(
            f"asked to end after step {step} of {self.steps}; saved up to step {self.newest}",
            hint="the next attempt continues from there",
        )
