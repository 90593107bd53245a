"""How the ranks of a training are laid out: data × sharded × tensor × pipeline. A laptop reads it, too.

A new dimension is one field of Layout and one name of DIMENSIONS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from slipway.containers.runtime.errors import Refusal

# The outermost first: ranks of one tensor group are neighbours, and so on one node.
DIMENSIONS = ("pipeline", "data", "sharded", "tensor")


class ImpossibleLayout(Refusal):
    """The degrees of parallelism fit neither the ranks nor the model."""


class Coordinates(NamedTuple):
    """Place one rank along each of DIMENSIONS."""

    pipeline: int
    data: int
    sharded: int
    tensor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Say how many ranks share what; their product is the world.

    `data` ranks hold the same weights, `sharded` ranks cut them into shares, and both read rows of their
    own. `tensor` ranks cut each layer and `pipeline` ranks the model's depth: together they read the same
    rows, as one *reader*.
    """

    data: int = 1
    sharded: int = 1
    tensor: int = 1
    pipeline: int = 1
    ranks_per_node: int = 1

    @classmethod
    def of(
        cls, world: int, *, sharded: int = 1, tensor: int = 1, pipeline: int = 1, ranks_per_node: int = 1
    ) -> Layout:
        """Give `data` what the other degrees leave of the world."""
        each = sharded * tensor * pipeline
        if world % each:
            raise ImpossibleLayout(
                f"sharded={sharded} × tensor={tensor} × pipeline={pipeline} need a multiple of {each} "
                f"ranks, and there are {world}",
                hint=f"set degrees whose product divides {world}",
            )
        return cls(
            data=world // each,
            sharded=sharded,
            tensor=tensor,
            pipeline=pipeline,
            ranks_per_node=ranks_per_node,
        )

    @property
    def degrees(self) -> dict[str, int]:
        """Return the degree of each of DIMENSIONS, in that order."""
        return {name: getattr(self, name) for name in DIMENSIONS}

    @property
    def world(self) -> int:
        return math.prod(self.degrees.values())

    @property
    def readers(self) -> int:
        return self.data * self.sharded

    @property
    def spans_nodes(self) -> bool:
        """Return True if ranks that cut the same layer are on different nodes and wait for their network."""
        return self.ranks_per_node % self.tensor > 0

    def coordinates(self, rank: int) -> Coordinates:
        found = []
        for size in reversed(self.degrees.values()):
            rank, at = divmod(rank, size)
            found.append(at)
        return Coordinates(*reversed(found))

    def rank(self, coordinates: Coordinates) -> int:
        """Return the rank at these coordinates."""
        found = 0
        for at, size in zip(coordinates, self.degrees.values(), strict=True):
            found = found * size + at
        return found

    def reader(self, rank: int) -> int:
        """Number the reader that a rank belongs to: ranks of one reader train on the same rows."""
        at = self.coordinates(rank)
        return at.data * self.sharded + at.sharded

    def speaks(self, rank: int) -> bool:
        """Return True for the one rank of each reader whose losses count: the last stage computes them."""
        at = self.coordinates(rank)
        return at.tensor == 0 and at.pipeline == self.pipeline - 1

    def check(
        self,
        *,
        heads: int,
        layers: int,
        micro_batches: int,
        key_value_heads: int | None = None,
        stages_per_rank: int = 1,
    ) -> None:
        """Raise ImpossibleLayout if such a model, or a step of so many micro-batches, cannot be cut so."""
        for what, count in (("heads", heads), ("key-value heads", key_value_heads or heads)):
            if count % self.tensor:
                raise ImpossibleLayout(
                    f"tensor={self.tensor} does not divide the model's {count} {what}",
                    hint=f"set tensor to a divisor of {count}",
                )
        stages = self.pipeline * stages_per_rank
        if layers < stages:
            raise ImpossibleLayout(
                f"pipeline={self.pipeline} makes {stages} stages, and the model has {layers} layers",
                hint=f"set pipeline to at most {max(1, layers // stages_per_rank)}",
            )
        if self.pipeline > 1 and micro_batches < stages:
            raise ImpossibleLayout(
                f"pipeline={self.pipeline} makes {stages} stages, and a step has {micro_batches} "
                "micro-batches: stages would stand idle",
                hint=f"set a smaller micro_batch, or a batch of at least {stages} micro-batches a reader",
            )
