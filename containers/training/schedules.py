"""Learning-rate schedules: a linear warm-up, a constant part, then a decay. Standard library only.

A new decay is one entry of DECAYS, named after the reference that trains with it.
"""

from __future__ import annotations

import math
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
    least: float = 0.0  # what it falls to

    @property
    def warmup_steps(self) -> int:
        return int(self.steps * self.warmup_share)

    @property
    def level_until(self) -> int:
        return self.warmup_steps + int(self.steps * self.constant_share)

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0; it is above 0 for the first step already."""
        if step < self.warmup_steps:
            return self.peak * (step + 1) / (self.warmup_steps + 1)
        if step < self.level_until:
            return self.peak
        if step >= self.steps:
            return self.least
        left: float = DECAYS[self.decay](self, step) ** self.decay_power
        return self.least + (self.peak - self.least) * left


def _left_since_the_peak(schedule: Schedule, step: int) -> float:
    return (schedule.steps - step) / (schedule.steps - schedule.level_until)


DECAYS: Mapping[str, Callable[[Schedule, int], float]] = {
    # HabanaAI/Model-References, deepspeed-bert/schedulers.py, PolyWarmUpScheduler: falls from the peak.
    "habana": _left_since_the_peak,
    # NVIDIA/DeepLearningExamples, LanguageModeling/BERT/schedulers.py, PolyWarmUpScheduler: as if it had
    # fallen since the first step, so that the rate drops below the peak where the warm-up ends.
    "nvidia": lambda schedule, step: (schedule.steps - step) / schedule.steps,
    # NVIDIA/NeMo, core/optim/lr_scheduler.py, CosineAnnealing: half a wave from the peak to the least.
    "cosine": lambda schedule, step: (1 + math.cos(math.pi * (1 - _left_since_the_peak(schedule, step)))) / 2,
}
