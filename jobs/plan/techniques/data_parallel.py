"""Data parallel: each rank has the whole model and rows of its own; one rank trains alone."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.jobs.plan.techniques.technique import Technique, Variant


def _variants(ranks: int, on_a_node: int) -> Iterator[Variant]:
    yield Variant(name="data", settings={"engine": "plain"}, layout={})


TECHNIQUE = Technique(name="data", variants=_variants)
