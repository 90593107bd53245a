"""Spilling: one device that keeps of each layer its input alone, and that in the host's memory."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.jobs.plan.techniques.technique import KEEPINGS, Technique, Variant


def _variants(ranks: int, on_a_node: int) -> Iterator[Variant]:
    if ranks == 1:
        both = KEEPINGS[-1]
        yield Variant(name="spilled", settings={"engine": "native", **both.settings}, layout=both.layout)


TECHNIQUE = Technique(name="spilled", variants=_variants)
