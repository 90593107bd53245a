"""Holds what an engine saved, as another engine reads it, and counts what is read of a saved training."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import cast

import pytest
from torch import Tensor

from slipway.containers.training.state import ENGINE, LEFT_OUT, SavedState, TensorPiece


class HeldState:
    """Stand in for SavedState, where one rank's pieces are whole parameters."""

    def __init__(self, tensors: Mapping[tuple[str, str], Tensor]) -> None:
        self._tensors = tensors

    @property
    def left_out(self) -> int:
        return int(self._tensors.get((ENGINE, LEFT_OUT), 0))

    def read(self, kind: str, parameter: str) -> Tensor:
        return self._tensors[kind, parameter]

    def copy_to(self, targets: Iterable[TensorPiece]) -> None:
        for target in targets:
            target.data.copy_(self.read(target.kind, target.parameter))


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that notes at each read of a saved tensor how many of those read are in memory."""
    read = SavedState.read
    references: list[weakref.ref[Tensor]] = []
    found: list[int] = []

    def counted(self: SavedState, kind: str, parameter: str) -> Tensor:
        tensor = read(self, kind, parameter)
        references.append(weakref.ref(tensor))
        found.append(sum(reference() is not None for reference in references))
        return tensor

    monkeypatch.setattr(SavedState, "read", counted)
    return found


def taken(pieces: Iterable[TensorPiece]) -> dict[tuple[str, str], Tensor]:
    """Copy the pieces, by kind and parameter."""
    return {(piece.kind, piece.parameter): piece.data.clone() for piece in pieces}


def held(tensors: Mapping[tuple[str, str], Tensor]) -> SavedState:
    return cast(SavedState, HeldState(tensors))
