"""The techniques that a job may be spread with, in the order of trials. A new one is one line."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from slipway.jobs.plan.techniques.technique import Technique, Variant

TECHNIQUES: dict[str, str] = {
    "data": "slipway.jobs.plan.techniques.data_parallel",
    "zero": "slipway.jobs.plan.techniques.zero",
    "fsdp": "slipway.jobs.plan.techniques.fsdp",
    "gpipe": "slipway.jobs.plan.techniques.gpipe",
    "interleaved": "slipway.jobs.plan.techniques.interleaved",
    "tensor": "slipway.jobs.plan.techniques.tensor",
    "product": "slipway.jobs.plan.techniques.products",
    "spilled": "slipway.jobs.plan.techniques.spilled",
}


def find_technique(name: str) -> Technique:
    found: Technique = import_module(TECHNIQUES[name]).TECHNIQUE
    return found


def variants(ranks: int, on_a_node: int) -> Iterator[tuple[str, Variant]]:
    """Yield every variant of every technique on so many ranks, with its technique's name."""
    for name in TECHNIQUES:
        for variant in find_technique(name).variants(ranks, on_a_node):
            yield name, variant
