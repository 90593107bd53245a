"""Copies in host memory of what a rank saves, so that training goes on while they are written.

The buffers are made at the first save and kept: making them anew would take longer than copying.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.training.state import TensorPiece

_Key = tuple[str, str, Box]


class HostCopy:
    """Keep one copy of a rank's pieces."""

    def __init__(self) -> None:
        self._buffers: dict[_Key, Tensor] = {}

    def take(self, pieces: Iterable[TensorPiece]) -> list[TensorPiece]:
        """Copy the pieces; what was taken before is overwritten."""
        taken = []
        for piece in pieces:
            buffer = self._buffer((piece.kind, piece.parameter, piece.box), piece.data)
            buffer.copy_(piece.data, non_blocking=buffer.is_pinned())
            taken.append(replace(piece, data=buffer))
        if any(piece.data.is_pinned() for piece in taken[:1]):
            torch.cuda.synchronize()  # copies to pinned memory return before they are done
        return taken

    def _buffer(self, key: _Key, like: Tensor) -> Tensor:
        found = self._buffers.get(key)
        if found is None or found.dtype != like.dtype:
            is_pinned = like.device.type == "cuda"  # which copies to such memory by itself, and faster
            found = torch.empty(like.shape, dtype=like.dtype, pin_memory=is_pinned)
            self._buffers[key] = found
        return found
