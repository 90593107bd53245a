"""Products of two techniques within a node: tensor parallel with FSDP or a pipeline; nodes are copies."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.jobs.plan.techniques.technique import Technique, Variant, with_keepings


def _variants(ranks: int, on_a_node: int) -> Iterator[Variant]:
    inside = min(ranks, on_a_node)
    for tensor in (degree for degree in range(2, inside // 2 + 1) if inside % degree == 0):
        other = inside // tensor
        yield from with_keepings(
            Variant(
                name=f"tensor {tensor} × fsdp {other}",
                settings={"engine": "native", "tensor": f"{tensor}", "sharded": f"{other}"},
                layout={"tensor": tensor, "sharding": "hybrid", "hybrid_group": other},
            )
        )
        yield from with_keepings(
            Variant(
                name=f"tensor {tensor} × pipeline {other}",
                settings={"engine": "native", "tensor": f"{tensor}", "pipeline": f"{other}"},
                layout={"tensor": tensor, "pipeline": other},
            )
        )


TECHNIQUE = Technique(name="product", variants=_variants)
