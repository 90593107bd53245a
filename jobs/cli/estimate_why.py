"""`slipway estimate --why`: draws the parts of a step's time and of a device's memory as bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from slipway.jobs.cli.estimate_views import percent, rounded
from slipway.jobs.estimate.estimates import PARTS, Estimate, PricedHardware
from slipway.jobs.estimate.hardware import cluster_of
from slipway.jobs.estimate.work.work import memory
from slipway.jobs.estimate.work.workloads import Workload
from slipway.jobs.output import Column, bar, print_json, print_table, say

# The fields of Memory, in words.
HELD: Mapping[str, str] = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "the optimizer's state",
    "activations": "activations",
    "gathered": "layers that are gathered to compute",
    "free": "free",
}
_GIB = 2.0**30


def _seconds(value: object) -> str:
    assert isinstance(value, float)
    return f"{value:,.2f} s" if value >= 1 else f"{value * 1e3:,.1f} ms"


_SHARED = (
    Column(name="share", align="right", format=percent),
    Column(name="bar", title=""),
)
STEP_COLUMNS = (
    Column(name="nodes", align="right"),
    Column(name="part", title="of a step", format=lambda name: PARTS[str(name)]),
    Column(name="seconds", title="takes", align="right", format=_seconds),
    *_SHARED,
)
MEMORY_COLUMNS = (
    Column(name="nodes", align="right"),
    Column(name="part", title="of a device's memory", format=lambda name: HELD[str(name)]),
    Column(name="gib", title="takes", unit="GiB", align="right", format=rounded(1)),
    *_SHARED,
)


def print_why(
    title: str, workload: Workload, place: PricedHardware, found: Sequence[Estimate], *, as_json: bool
) -> None:
    steps = [
        {
            "nodes": estimate.nodes,
            "part": part,
            "seconds": seconds,
            **_share(seconds, sum(estimate.parts.values())),
        }
        for estimate in found
        for part, seconds in estimate.parts.items()
        if seconds
    ]
    held = [line for estimate in found for line in _memory_lines(workload, place, estimate)]
    if as_json:
        for line in (*steps, *held):
            del line["bar"]
        print_json({"step": steps, "memory": held})
        return
    print_table(title, STEP_COLUMNS, steps, as_json=False)
    say("")
    print_table("", MEMORY_COLUMNS, held, as_json=False)
    if any(each.word == "measured" for each in found):
        say("rates that were measured are told as measured; the parts are the model's in any case")


def _memory_lines(
    workload: Workload, place: PricedHardware, estimate: Estimate
) -> Iterator[dict[str, object]]:
    held = asdict(memory(workload.model, cluster_of(place.instance, estimate.nodes), estimate.layout))
    free = max(0.0, estimate.usable_gib - estimate.memory_gib)
    whole = estimate.memory_gib + free
    for part, gib in {**{name: value / _GIB for name, value in held.items()}, "free": free}.items():
        if gib:
            yield {"nodes": estimate.nodes, "part": part, "gib": gib, **_share(gib, whole)}


def _share(value: float, whole: float) -> dict[str, object]:
    return {"share": value / whole, "bar": bar(value, whole)}
