"""List the techniques that spread one model over ranks, with a recipe's settings and an estimate's layout.

To add one, write a function of the ranks (in all, on a node) and a row of TECHNIQUES (in order of trials).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

Layout = Mapping[str, str | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to use a technique on so many ranks."""

    name: str  # unique among all variants of all techniques
    settings: Mapping[str, str]  # of a recipe's config: see containers/training/config.py
    layout: Layout  # fields of an estimate's layout

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the settings as a mode of the planner holds them."""
        return tuple(self.settings.items())


# The variants on a number of ranks, `on_a_node` of them on each node; first the fastest if all fit.
Technique = Callable[[int, int], Iterable[Variant]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationChoice:
    """Name what layers keep for their backward: in words, for a recipe and for an estimate."""

    word: str
    settings: Mapping[str, str] = field(default_factory=dict)
    layout: Mapping[str, str] = field(default_factory=dict)


# The estimate has no offloaded activations: it counts them as recomputed, which frees as much memory.
_FREES = {"checkpointing": "full"}
KEEPINGS = (
    ActivationChoice(word=""),
    ActivationChoice(word="recomputed", settings={"checkpoint_activations": "layer"}, layout=_FREES),
    ActivationChoice(word="offloaded", settings={"offload_activations": "yes"}, layout=_FREES),
    ActivationChoice(
        word="recomputed and offloaded",
        settings={"checkpoint_activations": "layer", "offload_activations": "yes"},
        layout=_FREES,
    ),
)


def data_parallel(ranks: int, on_a_node: int) -> Iterator[Variant]:
    """Give each rank the whole model and its own rows; a single rank trains alone."""
    yield Variant(name="data", settings={"engine": "plain"}, layout={})


def zero(ranks: int, on_a_node: int) -> Iterator[Variant]:
    """Give each rank all weights, and a share of the gradients and optimizer state: ZeRO 2."""
    if ranks > 1:
        settings = {"sharded": f"{ranks}", "sharded_state": "optimizer"}
        yield from _with_keepings("zero", settings, {"sharding": "zero2"})


def fsdp(ranks: int, on_a_node: int) -> Iterator[Variant]:
    """Give each rank a share of everything, gathered a layer at a time: FSDP, which is ZeRO 3.

    On several nodes the shares are also tried within each node, with a copy of the model on every node.
    """
    if ranks > 1:
        yield from _with_keepings("fsdp", {"sharded": f"{ranks}"}, {"sharding": "fsdp"}, KEEPINGS)
    if ranks > on_a_node > 1:
        layout: Layout = {"sharding": "hybrid", "hybrid_group": on_a_node}
        yield from _with_keepings("fsdp in a node", {"sharded": f"{on_a_node}"}, layout)


def gpipe(ranks: int, on_a_node: int) -> Iterator[Variant]:
    """Give each rank some of the layers; all micro-batches go forward before the first goes back."""
    if ranks > 1:
        settings = {"pipeline": f"{ranks}", "pipeline_schedule": "gpipe"}
        yield from _with_keepings("gpipe", settings, {"pipeline": ranks, "schedule": "gpipe"})


def interleaved(ranks: int, on_a_node: int) -> Iterator[Variant]:
    """Give each rank two stages that are far apart, so that ranks idle less."""
    if ranks > 1:
        stages = 2
        settings = {
            "pipeline": f"{ranks}",
            "pipeline_schedule": "interleaved",
            "stages_per_rank": f"{stages}",
        }
        layout: Layout = {"pipeline": ranks, "schedule": "interleaved", "chunks": stages}
        yield from _with_keepings("interleaved", settings, layout)


def tensor(ranks: int, on_a_node: int) -> Iterator[Variant]:
    """Share every matrix among the ranks of a node; each node has a copy of the model."""
    degree = min(ranks, on_a_node)
    if degree > 1 and ranks % degree == 0:
        yield from _with_keepings("tensor", {"tensor": f"{degree}"}, {"tensor": degree})


def products(ranks: int, on_a_node: int) -> Iterator[Variant]:
    """Combine tensor parallel with FSDP or a pipeline in a node; each node has a copy of the model."""
    inside = min(ranks, on_a_node)
    for degree in (degree for degree in range(2, inside // 2 + 1) if inside % degree == 0):
        other = inside // degree
        yield from _with_keepings(
            f"tensor {degree} × fsdp {other}",
            {"tensor": f"{degree}", "sharded": f"{other}"},
            {"tensor": degree, "sharding": "hybrid", "hybrid_group": other},
        )
        yield from _with_keepings(
            f"tensor {degree} × pipeline {other}",
            {"tensor": f"{degree}", "pipeline": f"{other}"},
            {"tensor": degree, "pipeline": other},
        )


def spilled(ranks: int, on_a_node: int) -> Iterator[Variant]:
    """On one device, keep only the input of each layer, in the host's memory."""
    if ranks == 1:
        yield from _with_keepings("spilled", {}, {}, [replace(KEEPINGS[-1], word="")])


TECHNIQUES: Mapping[str, Technique] = {
    "data": data_parallel,
    "zero": zero,
    "fsdp": fsdp,
    "gpipe": gpipe,
    "interleaved": interleaved,
    "tensor": tensor,
    "product": products,
    "spilled": spilled,
}


def doubling(most: int) -> list[int]:
    """Return the numbers of devices or nodes to try: 1, 2, 4, … and the most."""
    return sorted({2**power for power in range(most.bit_length())} | {most})


def _with_keepings(
    name: str,
    settings: Mapping[str, str],
    layout: Layout,
    keepings: Iterable[ActivationChoice] = KEEPINGS[:2],
) -> Iterator[Variant]:
    """Yield a variant of our own engine for each choice of activations that it keeps."""
    for keeping in keepings:
        yield Variant(
            name=f"{name} {keeping.word}".strip(),
            settings={"engine": "native", **settings, **keeping.settings},
            layout={**layout, **keeping.layout},
        )
