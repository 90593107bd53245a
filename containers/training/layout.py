"""The layout of a training's ranks (data × sharded × tensor × pipeline), batches, and the cut into stages.

A new dimension is one field of Layout and one name of DIMENSIONS. Standard library only, for laptops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

from slipway.containers.runtime.errors import Refusal

# The outermost first: ranks of one tensor group are neighbours, and so on one node.
DIMENSIONS = ("pipeline", "data", "sharded", "tensor")
CUTTING = ("sharded", "tensor", "pipeline")  # the model, so that no rank holds all of it


class ImpossibleLayout(Refusal):
    """The degrees of parallelism fit neither the ranks nor the model."""


class CutShape(Protocol):
    """The numbers of a model that tensor and pipeline ranks divide."""

    @property
    def layers(self) -> int: ...

    @property
    def heads(self) -> int: ...

    @property
    def intermediate(self) -> int: ...


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
        """Build a layout whose `data` follows from the world and the other degrees."""
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

    def __str__(self) -> str:
        """Return the degrees as `--set` has them; data ranks are what these leave."""
        cut = {"data": self.data, **{name: self.degrees[name] for name in CUTTING}}
        return " × ".join(f"{name}={degree}" for name, degree in cut.items() if degree > 1) or "one rank"

    @property
    def cuts(self) -> bool:
        """Return True if ranks hold parts of the model; else all of them have copies."""
        return self.data < self.world

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

    def check(self, shape: CutShape, *, stages_per_rank: int = 1) -> None:
        """Raise ImpossibleLayout if the layout cannot cut a model of this shape."""
        for what, count in (("heads", shape.heads), ("feed-forward width", shape.intermediate)):
            if count % self.tensor:
                raise ImpossibleLayout(
                    f"tensor={self.tensor} does not divide the model's {what} of {count}",
                    hint=f"set tensor to a divisor of {math.gcd(shape.heads, shape.intermediate)}",
                )
        stages = self.pipeline * stages_per_rank
        if shape.layers < stages:
            raise ImpossibleLayout(
                f"pipeline={self.pipeline} makes {stages} stages, and the model has {shape.layers} layers",
                hint=f"set pipeline to at most {max(1, shape.layers // stages_per_rank)}",
            )

    def check_step(self, micro_batches: int, *, stages_per_rank: int, schedule: str) -> None:
        """Raise ImpossibleLayout if a pipeline cannot run a step of so many micro-batches."""
        stages = self.pipeline * stages_per_rank
        if self.pipeline > 1 and micro_batches < stages:
            raise ImpossibleLayout(
                f"pipeline={self.pipeline} makes {stages} stages, and a step has {micro_batches} "
                "micro-batches: stages would stand idle",
                hint=f"set a smaller micro_batch, or a batch of at least {stages} micro-batches a reader",
            )
        if schedule == "interleaved" and micro_batches % max(1, micro_batches // self.pipeline):
            raise ImpossibleLayout(
                f"pipeline_schedule=interleaved deals {micro_batches} micro-batches unevenly over "
                f"{self.pipeline} ranks",
                hint=f"set a batch of a multiple of {self.pipeline} micro-batches a reader, or "
                "pipeline_schedule=1f1b",
            )


# Share a global batch; its micro-batches are the same for any number of ranks.


class IndivisibleBatch(Refusal):
    """The global batch is no whole number of micro-batches on every rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    micro_batch: int
    accumulation_steps: int
    readers: int  # ranks that read rows of their own: see layout.py

    @property
    def global_batch(self) -> int:
        return self.micro_batch * self.accumulation_steps * self.readers

    @property
    def micro_batches(self) -> int:
        """Return the number of micro-batches in one step, over all readers."""
        return self.accumulation_steps * self.readers

    def number(self, step: int, reader: int, position: int) -> int:
        """Number a micro-batch since training began: reader 0 takes the first of a step, as the loader
        deals."""
        return step * self.micro_batches + reader * self.accumulation_steps + position


def share_batch(
    global_batch: int, micro_batch: int, readers: int, *, called: str = "copies of the model"
) -> BatchPlan:
    """Share a global batch among readers, or refuse it; errors call the readers `called`."""
    each = micro_batch * readers
    accumulation_steps = micro_batches(global_batch, micro_batch, readers)
    if accumulation_steps is None:
        below = global_batch // each * each
        nearest = f"{below} or {below + each}" if below else f"{each}"
        raise IndivisibleBatch(
            f"a global batch of {global_batch} is not a multiple of {each} "
            f"(micro_batch {micro_batch} × {readers} {called})",
            hint=f"set global_batch={nearest}, or another micro_batch",
        )
    return BatchPlan(micro_batch=micro_batch, accumulation_steps=accumulation_steps, readers=readers)


def dealt(count: int, reader: int, readers: int) -> list[int]:
    """Return which of `count` micro-batches a reader gets: dealt to and fro, so that none has all the
    long ones."""
    turns = (divmod(number, readers) for number in range(count))
    return [
        turn * readers + place
        for turn, place in turns
        if (readers - 1 - place if turn % 2 else place) == reader
    ]


# Count steps, cuts of a batch, and an engine's bytes, in the same way for recipes and for estimates.
# Standard library only: a laptop without torch counts the same.


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBytes:
    """Count what a rank holds for one parameter, before anything is shared, and for one value of a layer."""

    weights: float
    gradients: float
    optimizer: float  # two moments in 32 bit, and weights in 32 bit beside a model of 16
    values: float


_IN_32_BIT = HeldBytes(weights=4, gradients=4, optimizer=8, values=4)
# Gradients add up in 32 bit. Plain data parallelism drops those of the backward at once; the other engines
# keep them beside the sums.
_PLAIN = HeldBytes(weights=2, gradients=4, optimizer=12, values=2)
_BESIDE_SUMS = HeldBytes(weights=2, gradients=6, optimizer=12, values=2)


def held_bytes(engine: str, precision: str) -> HeldBytes:
    """Return what an engine holds; 16 bit where the precision is left to the device."""
    if precision == "fp32":
        return _IN_32_BIT
    return _PLAIN if engine == "plain" else _BESIDE_SUMS


def steps_of_sequences(sequences: int, global_batch: int) -> int:
    """Return the steps that so many sequences take; the last one is whole."""
    return -(-sequences // global_batch)


def sequences_of_tokens(tokens: int, length: int) -> int:
    """Return the sequences of this length that so many tokens fill; the last one is whole."""
    return -(-tokens // length)


def steps_of_epoch(rows: int, global_batch: int, *, keeps_rest: bool) -> int:
    """Return the steps of an epoch; what is left of it is a smaller step, or waits for the next epoch."""
    return -(-rows // global_batch) if keeps_rest else rows // global_batch


def at_most(whole: int, asked: int | None) -> int:
    """Return the steps of a training that was asked to end after so many, at the latest."""
    return min(whole, asked or whole)


def micro_batches(global_batch: int, micro_batch: int, readers: int) -> int | None:
    """Return how many micro-batches each reader adds up in a step; None if the batch cannot be cut so."""
    count, rest = divmod(global_batch, micro_batch * readers)
    return None if rest else count


# How many layers each stage of a pipeline gets, so that the slowest stage is as fast as can be. The slowest
# sets the pace of all. What stands beside the layers counts: words are looked up before the first, and the
# head, as dear as some layers, stands behind the last. No torch here.


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Hold what a micro-batch takes, in any one unit."""

    first: float  # before the layers
    layers: Sequence[float]
    last: float  # behind them


def balanced(costs: Costs, stages: int) -> tuple[int, ...]:
    """Return the layers of each stage for which the dearest stage is cheapest; each has one at least."""
    total = len(costs.layers)
    assert stages <= total, f"{total} layers are no {stages} stages"

    @cache
    def best(begin: int, left: int) -> tuple[float, float, tuple[int, ...]]:
        """Return the dearest stage, the sum of squares (of equals the evenest), and the counts."""
        is_last = left == 1
        found = []
        for end in (total,) if is_last else range(begin + 1, total - left + 2):
            own = sum(costs.layers[begin:end]) + (costs.last if is_last else 0.0)
            own += costs.first if begin == 0 else 0.0
            dearest, squares, counts = (0.0, 0.0, ()) if is_last else best(end, left - 1)
            found.append((max(own, dearest), squares + own * own, (end - begin, *counts)))
        return min(found)

    return best(0, stages)[2]
