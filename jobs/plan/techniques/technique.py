"""A technique spreads one model over ranks: its variants say what recipes are told and estimates asked.

A further one is a module with a TECHNIQUE like those beside this file, and one line of registry.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to use a technique on so many ranks."""

    name: str  # among all variants of all techniques
    settings: Mapping[str, str]  # of a recipe's config: see containers/training/config.py
    layout: Mapping[str, str | int | None]  # fields of an estimate's layout

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the settings as a mode of the planner holds them."""
        return tuple(self.settings.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Technique:
    name: str
    # All variants on so many ranks, of which so many are on a node; the fastest where all fit comes first.
    variants: Callable[[int, int], Iterable[Variant]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationChoice:
    """Say what layers keep for their backward, in a person's word, a recipe's and an estimate's."""

    word: str
    settings: Mapping[str, str] = field(default_factory=dict)
    layout: Mapping[str, str] = field(default_factory=dict)


# The estimate knows no offloaded activations: it counts them as computed again, which frees as much.
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


def with_keepings(variant: Variant, keepings: Iterable[ActivationChoice] = KEEPINGS[:2]) -> Iterator[Variant]:
    """Yield the variant with each way to keep what a backward needs."""
    for keeping in keepings:
        yield Variant(
            name=f"{variant.name} {keeping.word}".strip(),
            settings={**variant.settings, **keeping.settings},
            layout={**variant.layout, **keeping.layout},
        )
