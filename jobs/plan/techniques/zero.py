"""ZeRO 2: each rank has all weights, and a share of the gradients and of what the optimizer keeps."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.jobs.plan.techniques.technique import Technique, Variant, with_keepings


def _variants(ranks: int, on_a_node: int) -> Iterator[Variant]:
    if ranks > 1:
        settings = {"engine": "native", "sharded": f"{ranks}", "sharded_state": "optimizer"}
        yield from with_keepings(Variant(name="zero", settings=settings, layout={"sharding": "zero2"}))


TECHNIQUE = Technique(name="zero", variants=_variants)
