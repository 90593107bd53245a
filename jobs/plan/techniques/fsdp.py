"""FSDP, which is ZeRO 3: each rank has a share of everything, and gathers a layer while it computes it.

On several nodes the shares are also tried within each node, with a copy of the model on every node.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway.jobs.plan.techniques.technique import KEEPINGS, Technique, Variant, with_keepings


def _variants(ranks: int, on_a_node: int) -> Iterator[Variant]:
    if ranks > 1:
        whole = Variant(
            name="fsdp", settings={"engine": "native", "sharded": f"{ranks}"}, layout={"sharding": "fsdp"}
        )
        yield from with_keepings(whole, KEEPINGS)
    if ranks > on_a_node > 1:
        in_node = Variant(
            name="fsdp in a node",
            settings={"engine": "native", "sharded": f"{on_a_node}"},
            layout={"sharding": "hybrid", "hybrid_group": on_a_node},
        )
        yield from with_keepings(in_node)


TECHNIQUE = Technique(name="fsdp", variants=_variants)
