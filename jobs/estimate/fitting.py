"""Checks whether a layout fits a device; if not, finds the number that breaks and the nearest layout that
fits.

Another change to try is one row of CHANGES, in order of the speed that each costs, the least first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.hardware import STARTUP_SECONDS
from slipway.jobs.estimate.work.shapes import Hardware, Layout, Model, accumulation
from slipway.jobs.estimate.work.spread import interval_of
from slipway.jobs.estimate.work.work import Memory, memory, usable_bytes
from slipway.jobs.words.run import SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    fits: bool
    memory: Memory
    usable_bytes: float
    nearest: Layout | None  # a layout that fits; None: this one does, or no change helps
    change: str  # from the requested layout to the nearest, in words


def fit(model: Model, cluster: Hardware, layout: Layout) -> Fit:
    own, usable = memory(model, cluster, layout), usable_bytes(cluster)
    if own.total <= usable:
        return Fit(fits=True, memory=own, usable_bytes=usable, nearest=None, change="")
    nearest = _nearest(model, cluster, layout)
    return Fit(
        fits=False,
        memory=own,
        usable_bytes=usable,
        nearest=nearest,
        change=difference(layout, nearest) if nearest else "",
    )


def _nearest(model: Model, cluster: Hardware, layout: Layout) -> Layout | None:
    """Return the layout that fits with the fewest changes: one, two or three together."""
    edge = [layout]
    for _ in range(3):
        edge = [tried for each in edge for change in CHANGES.values() for tried in change(each, cluster)]
        for tried in edge:
            if _works(model, cluster, tried):
                return tried
    return None


def _works(model: Model, cluster: Hardware, layout: Layout) -> bool:
    try:
        accumulation(model, cluster, layout)
        return memory(model, cluster, layout).total <= usable_bytes(cluster)
    except CannotEstimate:
        return False


def _shard_optimizer(layout: Layout, _cluster: Hardware) -> Iterator[Layout]:
    if layout.sharding == "none":
        yield replace(layout, sharding="zero1")


def _smaller_micro_batch(layout: Layout, _cluster: Hardware) -> Iterator[Layout]:
    """Yield the same global batch in more, smaller micro-batches."""
    smaller, factor = layout.micro_batch, 1
    while smaller % 2 == 0:
        smaller, factor = smaller // 2, factor * 2
        steps = layout.accumulation_steps
        more = None if layout.global_batch is not None else (steps or 1) * factor
        yield replace(layout, micro_batch=smaller, accumulation_steps=more)


def _checkpoint(layout: Layout, _cluster: Hardware) -> Iterator[Layout]:
    if layout.checkpointing != "full":
        yield replace(layout, checkpointing="full")


def _shard_more(layout: Layout, _cluster: Hardware) -> Iterator[Layout]:
    order = ("none", "zero1", "zero2", "zero3")
    if layout.sharding in order:
        for sharding in order[order.index(layout.sharding) + 1 :]:
            yield replace(layout, sharding=sharding)


def _split_tensors(layout: Layout, cluster: Hardware) -> Iterator[Layout]:
    """Yield layouts with split tensors, only within a node: between nodes that is rarely worthwhile."""
    degree = layout.tensor * 2
    while degree <= cluster.devices_per_node:
        yield replace(layout, tensor=degree)
        degree *= 2


def _split_layers(layout: Layout, cluster: Hardware) -> Iterator[Layout]:
    degree = layout.pipeline * 2
    while degree * layout.tensor <= cluster.devices:
        yield replace(layout, pipeline=degree)
        degree *= 2


def _offload(layout: Layout, _cluster: Hardware) -> Iterator[Layout]:
    if not layout.offload:
        yield replace(layout, offload=True)


CHANGES: Mapping[str, Callable[[Layout, Hardware], Iterator[Layout]]] = {
    "shard the optimizer's state": _shard_optimizer,
    "take fewer sequences at a time": _smaller_micro_batch,
    "compute activations again": _checkpoint,
    "shard gradients and weights": _shard_more,
    "split tensors inside a node": _split_tensors,
    "split layers over stages": _split_layers,
    "keep the optimizer's state in the node's memory": _offload,
}


def difference(asked: Layout, found: Layout) -> str:
    """Return, in words, what was changed in the requested layout."""
    said = ("sharding", "micro_batch", "checkpointing", "tensor", "pipeline", "offload")
    changed = (name for name in said if getattr(asked, name) != getattr(found, name))
    return ", ".join(f"{name}={getattr(found, name)}" for name in changed)


# The ranges of an estimate's numbers: nine of ten lie between the two ends.
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Hold the least and the most of each number; None if the number itself is unknown."""

    sequences_per_second: Ends
    hours: Ends | None
    usd: Ends | None


def ranges_of(rate: float, spread: float, hours: float | None, usd_per_hour: float | None) -> Ranges:
    """Return the ranges: a time varies as its rate does, except for the start-up."""
    time = None
    if hours is not None:
        start = STARTUP_SECONDS / SECONDS_PER_HOUR
        least, most = interval_of(hours - start, spread)
        time = least + start, most + start
    paid = None if time is None or usd_per_hour is None else (time[0] * usd_per_hour, time[1] * usd_per_hour)
    return Ranges(sequences_per_second=interval_of(rate, spread), hours=time, usd=paid)


def band_of(spread: float) -> float:
    """Return how far off the farther end is, as a share."""
    return math.expm1(spread)
