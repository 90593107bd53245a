"""What a loss or gradient that is no number does to a training: decided before it is applied, never after."""

from __future__ import annotations

import math
from typing import Literal

from containers.runtime.errors import Refusal

# stop: the training ends, its older checkpoints as they are. skip: this step's gradients are dropped, and
# the training ends if that goes on.
NotFinitePolicy = Literal["stop", "skip"]


class LossNotFinite(Refusal):
    """The training has diverged; trying again from the same state would diverge again."""


class FiniteGuard:
    """Ask it before an optimizer's step, and a checkpoint can never hold the NaN."""

    def __init__(self, policy: NotFinitePolicy = "stop", *, most_skipped: int = 10) -> None:
        self._policy = policy
        self._most_skipped = most_skipped
        self._skipped = 0

    def may_apply(self, step: int, loss: float, gradient_norm: float | None = None) -> bool:
        """Every rank must ask with the same, reduced, values: then all skip, or all stop."""
        if math.isfinite(loss) and (gradient_norm is None or math.isfinite(gradient_norm)):
            self._skipped = 0
            return True
        self._skipped += 1
        what = f"step {step} has loss {loss} and gradient norm {gradient_norm}"
        if self._policy == "stop":
            raise LossNotFinite(
                what, hint="lower the learning rate, or resume with another order of the data"
            )
        if self._skipped > self._most_skipped:
            raise LossNotFinite(f"{what}, and the {self._most_skipped} steps before it were no better")
        return False
