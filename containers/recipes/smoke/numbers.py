"""Numbers whose sum says who gave a wrong one: each element is one rank's alone, and nought of all others."""

from __future__ import annotations

import torch

MIB = 1 << 20
_BYTES = 4  # of fp32
_SMALLEST_BYTES = 4096
_FACTOR = 16
_ABOVE_ZERO = 1.0


def sizes(largest_mib: int) -> list[int]:
    """Return the elements of the tensors, from 4 KiB up to the largest."""
    largest = largest_mib * MIB // _BYTES
    count, found = _SMALLEST_BYTES // _BYTES, []
    while count < largest:
        found.append(count)
        count *= _FACTOR
    return [*found, largest]


def given(count: int, rank: int, world: int) -> torch.Tensor:
    """Return what a rank gives: its number at its own elements, which are every world-th."""
    tensor = torch.zeros(count)
    tensor[rank::world] = rank + _ABOVE_ZERO
    return tensor


def expected(count: int, world: int) -> torch.Tensor:
    return torch.arange(count).remainder(world).float() + _ABOVE_ZERO


def wrong_ranks(summed: torch.Tensor, world: int) -> list[int]:
    """Return the ranks whose elements are not what they gave."""
    wrong = (summed != expected(summed.numel(), world)).nonzero().flatten()
    return sorted({int(rank) for rank in wrong.remainder(world).unique()})


def bus_share(world: int) -> float:
    """Return how much of its tensor each rank has to send, at least (nccl-tests, PERFORMANCE.md)."""
    return 2 * (world - 1) / world
