"""Save while a training continues, and end it early when asked: all ranks make the same calls at each step.

A save is copied to host memory, and then written beside the steps that follow. A new one waits for the one
before; all ranks learn what became of it where they meet: at the next save, or where they end.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FrameType
from typing import Protocol

import torch
from torch import Tensor, distributed

from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, SaveFailed
from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Interruption, Refusal
from slipway.containers.training.state import HostCopy, TensorPiece, encode


class HasPieces(Protocol):
    def pieces(self) -> Iterable[TensorPiece]:
        """Return what this rank saves."""


MOST_FAILED = 3  # saves in a row: by then what trains on is lost when it ends


@dataclass(slots=True, kw_only=True)
class Saving:
    engine: HasPieces
    checkpoints: Checkpoints | None
    ending: ShutdownWatch
    every: int  # steps
    minutes: float  # since the last save: whichever comes first
    steps: int  # of the whole training
    place: torch.device
    say: Callable[[str], None]
    newest: int = 0  # the step that was saved last, or begun with
    failed: int = 0  # saves in a row
    host_copy: HostCopy = field(default_factory=HostCopy)
    failure: Exception | None = None  # for which this rank asks all to end
    begun: int = 0  # the step of the save that runs, or ran last
    waited: float = 0.0  # seconds for which it held up the training
    clock: Callable[[], float] = time.monotonic
    _tried_at: float | None = None

    @property
    def must_end(self) -> bool:
        """Return True if failed saves must end the training, which all ranks must then be told."""
        return self.failure is not None

    def is_due(self) -> bool:
        """Return True if `minutes` have passed since the last save or the first call, on one rank for all."""
        if self._tried_at is None:
            self._tried_at = self.clock()
        return self.clock() - self._tried_at >= self.minutes * 60

    def after(self, step: int, *, must_end: bool, is_due: bool = False, cursor: Json = None) -> None:
        """Save if it is time; raise Interruption if a rank was told to end and steps are left."""
        if self.checkpoints is not None and self.checkpoints.is_over:
            self._finish(self.checkpoints)
        if must_end and step < self.steps:
            self.settle()
            without = torch.tensor([float(not self.ending.has_time_to_save())], device=self.place)
            if not summed(without)[0] and self.newest < step:
                self._save(step, cursor)
                self.settle()
            raise Interruption(
                f"asked to end after step {step} of {self.steps}; saved up to step {self.newest}",
                hint="the next attempt continues from there",
            )
        if is_due or step % self.every == 0 or step == self.steps:
            self._save(step, cursor)
            self._tried_at = self.clock()
        if step == self.steps:
            self.settle()

    def _save(self, step: int, cursor: Json) -> None:
        """Start a save, once the one before has ended."""
        if self.checkpoints is None:
            return
        self.settle()
        began = time.perf_counter()
        taken = encode(self.host_copy.take(self.engine.pieces()))
        self.checkpoints.begin(step, taken, cursor=cursor)
        self.begun, self.waited = step, time.perf_counter() - began

    def settle(self) -> None:
        """Wait for the running save on all ranks, which end together if too many saves have failed."""
        if self.checkpoints is not None:
            self._finish(self.checkpoints)
        if self.failure is not None:
            raise self.failure

    def _finish(self, checkpoints: Checkpoints) -> None:
        """Note what became of the save that runs. A failure costs this checkpoint and not the training,
        unless this was its last save, or too many have failed."""
        began = time.perf_counter()
        try:
            saved = checkpoints.finish()
        except SaveFailed as error:
            self.failed += 1
            if self.begun < self.steps and self.failed < MOST_FAILED:
                self.say(f"warning: {error}")
                return
            self.failure = Interruption(
                f"{error}; that was save {self.failed} in a row to fail, and the newest is of step "
                f"{self.newest}",
                hint="make room there: the next attempt continues from it",
            )
        except Exception as error:  # noqa: BLE001  # raised where all ranks meet
            self.failure = error
        else:
            if saved is None:
                return
            self.waited += time.perf_counter() - began
            self.newest, self.failed = saved.step, 0
            self.ending.longest_save_seconds = max(self.ending.longest_save_seconds, saved.seconds)
            self.say(f"saved step {saved.step} in {saved.seconds:.1f} s; training waited {self.waited:.2f} s")


# A training ends early at SIGTERM, at the deadline, or when another rank does.
GRACE_SECONDS = 25.0  # the launcher's, within the 30 s that AWS Batch and Slurm give
_SPARE_SECONDS = 2.0  # to leave after the save


class ShutdownWatch:
    """Notice when a rank must end: at SIGTERM, or near the deadline.

    It is asked only between steps, as all ranks must end after the same step.
    """

    def __init__(self, contract: LaunchContract) -> None:
        self._deadline = contract.deadline
        self._asked_at: float | None = None
        self.longest_save_seconds = 0.0
        self.longest_step_seconds = 0.0
        signal.signal(signal.SIGTERM, self._hear)

    @property
    def is_near(self) -> bool:
        """Return True if another step and a save would no longer fit."""
        needed = self.longest_step_seconds + self.longest_save_seconds + _SPARE_SECONDS
        return self._asked_at is not None or self._left_by_deadline() < 2 * needed

    def has_time_to_save(self) -> bool:
        return self.seconds_left() > self.longest_save_seconds + _SPARE_SECONDS

    def seconds_left(self) -> float:
        if self._asked_at is None:
            return self._left_by_deadline()
        return min(self._asked_at + GRACE_SECONDS - time.monotonic(), self._left_by_deadline())

    def _left_by_deadline(self) -> float:
        return float("inf") if self._deadline is None else self._deadline - time.time()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._asked_at is None:  # a second SIGTERM gives no new time
            self._asked_at = time.monotonic()


# Sums over all ranks, and the check that all have the same settings.


def summed(values: Tensor) -> list[float]:
    """Sum values over all ranks; without a process group, return them unchanged."""
    if distributed.is_initialized():
        distributed.all_reduce(values)
    found: list[float] = values.tolist()
    return found


def check_ranks_agree(identity: dict[str, Json], collective: Collective) -> None:
    first, *others = collective.gather(identity)
    for rank, other in enumerate(others, start=1):
        if other != first:
            assert isinstance(other, dict), "it is what a rank sent"
            assert isinstance(first, dict), "it is what rank 0 sent"
            name = next(name for name in first if other.get(name) != first[name])
            raise Refusal(
                f"rank {rank} has {name} {other.get(name)!r}, and rank 0 has {first[name]!r}",
                hint="start all ranks with the same settings and the same image",
            )
