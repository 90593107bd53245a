"""The techniques that a job may be spread with, in the order of trials. A new one is one line."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from slipway.jobs.techniques.technique import Technique, Variant

TECHNIQUES: dict[str, str] = {
    "data": "slipway.jobs.techniques.data_parallel",
    "zero": "slipway.jobs.techniques.zero",
    "fsdp": "slipway.jobs.techniques.fsdp",
    "gpipe": "slipway.jobs.techniques.gpipe",
    "interleaved": "slipway.jobs.techniques.interleaved",
    "tensor": "slipway.jobs.techniques.tensor",
    "product": "slipway.jobs.techniques.products",
    "spilled": "slipway.jobs.techniques.spilled",
}


def find_technique(name: str) -> Technique:
    found: Technique = import_module(TECHNIQUES[name]).TECHNIQUE
    return found


def variants(ranks: int, on_a_node: int) -> Iterator[tuple[str, Variant]]:
    """Yield every variant of every technique on so many ranks, with its technique's name."""
    for name in TECHNIQUES:
        for variant in find_technique(name).variants(ranks, on_a_node):
            yield name, variant
