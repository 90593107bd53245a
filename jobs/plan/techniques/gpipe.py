"""GPipe: each rank has some of the layers; all micro-batches go forward before the first goes back."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.jobs.plan.techniques.technique import Technique, Variant, with_keepings


def _variants(ranks: int, on_a_node: int) -> Iterator[Variant]:
    if ranks > 1:
        settings = {"engine": "native", "pipeline": f"{ranks}", "pipeline_schedule": "gpipe"}
        layout: dict[str, str | int | None] = {"pipeline": ranks, "schedule": "gpipe"}
        yield from with_keepings(Variant(name="gpipe", settings=settings, layout=layout))


TECHNIQUE = Technique(name="gpipe", variants=_variants)
