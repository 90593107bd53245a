"""What recipes and the estimate count alike: steps, the cut of a batch, and the bytes that an engine holds.

Standard library only: a laptop without torch counts the same.
"""

from __future__ import annotations

from dataclasses import dataclass


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
