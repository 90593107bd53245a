"""Tensor parallel: the ranks of a node share every matrix; several nodes are copies."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.jobs.plan.techniques.technique import Technique, Variant, with_keepings


def _variants(ranks: int, on_a_node: int) -> Iterator[Variant]:
    degree = min(ranks, on_a_node)
    if degree > 1 and ranks % degree == 0:
        settings = {"engine": "native", "tensor": f"{degree}"}
        yield from with_keepings(Variant(name="tensor", settings=settings, layout={"tensor": degree}))


TECHNIQUE = Technique(name="tensor", variants=_variants)
