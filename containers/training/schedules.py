"""How the learning rate goes: up in a line, level for a while, then down to nothing. Standard library only.

A new way down is one function and one entry of DECAYS, named after the reference that trains with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Compute the learning rate of each step."""

    peak: float
    steps: int
    warmup_share: float
    decay_power: float
    constant_share: float = 0.0
    decay: str = "habana"

    @property
    def warmup_steps(self) -> int:
        return int(self.steps * self.warmup_share)

    @property
    def level_until(self) -> int:
        return self.warmup_steps + int(self.steps * self.constant_share)

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0; the first one already moves the weights."""
        if step < self.warmup_steps:
            return self.peak * (step + 1) / (self.warmup_steps + 1)
        if step < self.level_until:
            return self.peak
        if step >= self.steps:
            return 0.0
        return self.peak * DECAYS[self.decay](self, step) ** self.decay_power


def _left_since_the_peak(schedule: Schedule, step: int) -> float:
    return (schedule.steps - step) / (schedule.steps - schedule.level_until)


def _left_since_the_start(schedule: Schedule, step: int) -> float:
    return (schedule.steps - step) / schedule.steps


# habana: HabanaAI/Model-References, deepspeed-bert/schedulers.py, PolyWarmUpScheduler: falls from the peak.
# nvidia: NVIDIA/DeepLearningExamples, LanguageModeling/BERT/schedulers.py, PolyWarmUpScheduler: as if it had
# fallen since the first step, so that the rate drops below the peak where the warm-up ends.
DECAYS: Mapping[str, Callable[[Schedule, int], float]] = {
    "habana": _left_since_the_peak,
    "nvidia": _left_since_the_start,
}
