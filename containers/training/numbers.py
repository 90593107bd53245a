"""Seeds of dropout, and what ends a training whose numbers are none any more."""

from __future__ import annotations

from slipway.containers.runtime.errors import Refusal


class NotFinite(Refusal):
    """The loss or the gradient is NaN or infinite: the same again would end the same."""


def mixed(seed: int, number: int) -> int:
    """Derive a seed from a seed and a number (SplitMix64's finaliser, Steele et al. 2014): neighbours must
    not share a stream."""
    mixed = (seed * 0x9E3779B97F4A7C15 + number + 1) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (mixed ^ mixed >> 31) & 0x7FFFFFFFFFFFFFFF
