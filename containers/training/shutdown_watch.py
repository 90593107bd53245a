"""How a training is told to end early: SIGTERM, the deadline, or another rank that heard of either."""

from __future__ import annotations

import signal
import time
from types import FrameType

from slipway.containers.runtime.contract.contract import LaunchContract

GRACE_SECONDS = 25.0  # the launcher's, within the 30 s that AWS Batch and Slurm give
_SPARE_SECONDS = 2.0  # to leave after the save


class ShutdownWatch:
    """Notice when a rank must end: at SIGTERM, or near the deadline.

    It is asked between steps only, as all ranks must leave after the same one.
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
