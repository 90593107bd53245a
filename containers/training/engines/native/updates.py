"""Update the weights: norm over all shares, clipping, fp16's loss scale, and the optimizer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, distributed

from slipway.containers.training.engine import EngineParts
from slipway.containers.training.engines.native.assembly import HeldParameter
from slipway.containers.training.optimizers import build_optimizer, set_rate, state_of
from slipway.containers.training.state import MOMENTS, WEIGHTS

_CLIP_EPSILON = 1e-6  # torch's and DeepSpeed's


@dataclass(slots=True)
class LossScale:
    """Multiply losses so that fp16's small gradients survive: doubled now and then, halved when one is
    infinite."""

    value: float = 2.0**16
    largest: float = 2.0**24
    steps_to_double: int = 2000
    good_steps: int = 0

    def as_tensor(self) -> Tensor:
        return torch.tensor([self.value, self.good_steps], dtype=torch.float32)

    def take(self, saved: Tensor) -> None:
        """Restore the state that `as_tensor` returned."""
        self.value, self.good_steps = float(saved[0]), int(saved[1])

    def note(self, *, is_finite: bool) -> None:
        self.good_steps = self.good_steps + 1 if is_finite else 0
        if not is_finite:
            self.value = max(1.0, self.value / 2)
        elif self.good_steps == self.steps_to_double:
            self.value, self.good_steps = min(self.largest, self.value * 2), 0


class Updates:
    """Update this rank's shares, in fp32 whichever type the layers compute in."""

    def __init__(self, parts: EngineParts, held: list[HeldParameter]) -> None:
        self._parts = parts
        self.masters = {one: one.local for one in held}
        self._optimizer = build_optimizer(
            parts.config.optimizer,
            parts.optimizer_groups(self.masters.values()),
            is_fused=parts.device.has_fused_adam,
            norms=WholeNorms(parts, self.masters),
        )

    def step(self, rate: float, scale: float) -> float:
        """Update all weights by gradients that are `scale` times too large; return their norm before
        clipping, and change nothing if it is not finite."""
        for one, master in self.masters.items():
            gradient = one.gradient
            # All masters move: a parameter that no row reached still decays, as it does in one process.
            master.grad = torch.zeros_like(master) if gradient is None else gradient
        norm = self._norm() / scale
        if math.isfinite(norm):
            factor = min(1.0, self._parts.config.clip_norm / (norm + _CLIP_EPSILON)) / scale
            if factor != 1:
                torch._foreach_mul_([each.grad for each in self.masters.values() if each.numel()], factor)
            set_rate(self._optimizer, rate)
            self._optimizer.step()
        self._optimizer.zero_grad()
        for one in self.masters:
            one.parameter.grad = None
        return norm

    def kinds(self, one: HeldParameter) -> dict[str, Tensor]:
        """Return the tensors to save for a parameter: its weights, and the optimizer's moments."""
        state = self._state(self.masters[one])
        return {WEIGHTS: self.masters[one], **{kind: state[kind] for kind in MOMENTS}}

    def set_steps(self, steps: int) -> None:
        """Tell the optimizer after how many steps the moments were saved."""
        for master in self.masters.values():
            self._state(master)["step"].fill_(steps)

    def _state(self, master: Tensor) -> dict[str, Tensor]:
        return state_of(self._optimizer, master, is_fused=self._parts.device.has_fused_adam)

    def _norm(self) -> float:
        """Return the norm over all shares; each element counts once, even if several ranks hold it."""
        layout, total = self._parts.layout, torch.zeros((), device=self._parts.device.place)
        for copies in (False, True):
            own = [
                master.grad
                for one, master in self.masters.items()
                if master.numel() and not one.is_copy and one.is_cut is not copies
            ]
            if own:
                squares = torch.stack(torch._foreach_norm(own)).square().sum()
                total += squares / (layout.tensor if copies else 1)
        if layout.world > 1:
            distributed.all_reduce(total)
        return math.sqrt(float(total) / layout.data)


# LAMB and LANS divide by the norms of whole tensors, of which each rank holds a share.


class WholeNorms:
    """Compute norms with the ranks that hold the other shares; all of them call the same in the same order.

    A rank's share may be empty: fewer rows than ranks.
    """

    def __init__(self, parts: EngineParts, masters: Mapping[HeldParameter, Tensor]) -> None:
        self._parts = parts
        self._is_cut = {master: one.is_cut for one, master in masters.items()}

    def __call__(self, tensors: Sequence[Tensor], parameters: Sequence[Tensor]) -> Sequence[Tensor]:
        squares = torch.stack(torch._foreach_norm(tensors)).square()
        self._add_up(squares, "sharded", self._parts.layout.sharded)
        if self._parts.layout.tensor > 1:
            cut = [at for at, parameter in enumerate(parameters) if self._is_cut[parameter]]
            places = torch.tensor(cut, device=squares.device)  # the others are whole on every tensor rank
            parts = squares[places]
            self._add_up(parts, "tensor", self._parts.layout.tensor)
            squares[places] = parts
        return squares.sqrt().unbind()

    def _add_up(self, squares: Tensor, dimension: str, degree: int) -> None:
        if degree > 1 and squares.numel():
            assert self._parts.mesh is not None, "several ranks have a mesh"
            distributed.all_reduce(squares, group=self._parts.mesh.get_group(dimension))
