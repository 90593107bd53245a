"""The interleaved pipeline: each rank has two stages that are far apart, so that fewer ranks stand idle."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.jobs.plan.techniques.technique import Technique, Variant, with_keepings

_STAGES = 2  # of a rank


def _variants(ranks: int, on_a_node: int) -> Iterator[Variant]:
    if ranks > 1:
        settings = {
            "pipeline": f"{ranks}",
            "pipeline_schedule": "interleaved",
            "stages_per_rank": f"{_STAGES}",
        }
        layout: dict[str, str | int | None] = {
            "pipeline": ranks,
            "schedule": "interleaved",
            "chunks": _STAGES,
        }
        variant = Variant(name="interleaved", settings={"engine": "native", **settings}, layout=layout)
        yield from with_keepings(variant)


TECHNIQUE = Technique(name="interleaved", variants=_variants)
