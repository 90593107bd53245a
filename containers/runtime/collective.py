"""The interface for small messages between ranks. checkpoint/tensor_file.py implements it with torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """`gather` takes one small value from every rank and returns all of them, in order of rank, on every
    rank.

    It raises when a peer is gone: its transport needs a timeout.
    """

    rank: int
    world: int
    gather: Callable[[Json], list[Json]]


ALONE = Collective(rank=0, world=1, gather=lambda value: [value])
