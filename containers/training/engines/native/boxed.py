"""What this engine saves and loads: boxes of whole tensors, whatever the layout."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class TensorBox:
    """Locate a block of a tensor: where it begins in each dimension, and how far it goes."""

    offsets: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def ends(self) -> tuple[int, ...]:
        return tuple(offset + side for offset, side in zip(self.offsets, self.shape, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxPiece:
    """Hold a box of a parameter, or of what the optimizer keeps for it."""

    kind: str
    parameter: str
    box: TensorBox
    data: Tensor


@dataclass(frozen=True, slots=True)
class WantedBox:
    """Name a box that a rank needs of a saved tensor."""

    kind: str
    parameter: str
    box: TensorBox


class BoxState(Protocol):
    """Read boxes of a saved training."""

    def copy_to(self, targets: Iterable[tuple[WantedBox, Tensor]]) -> None:
        """Copy each wanted box to its target."""
