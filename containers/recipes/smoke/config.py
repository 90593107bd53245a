"""What a person may set of a smoke test, `--set key=value`: read strictly, all mistakes told at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipway.containers.training.settings import (
    Choice,
    InvalidSettings,
    ValueKind,
    Whole,
    read_values,
    split_arguments,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeConfig:
    device: str
    largest_mib: int  # of the tensors that are reduced
    repeats: int  # of each size, of which the time is the mean


DEFAULTS: Mapping[str, str] = {"device": "auto", "largest_mib": "64", "repeats": "5"}

SETTINGS: Mapping[str, ValueKind] = {
    "device": Choice(("auto", "hpu", "cuda", "cpu")),
    "largest_mib": Whole(1, 4096),
    "repeats": Whole(1, 1000),
}


def decode_arguments(arguments: Sequence[str]) -> SmokeConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    given, mistakes = split_arguments(arguments, SETTINGS)
    values, more = read_values({**DEFAULTS, **given}, SETTINGS)
    if mistakes or more:
        raise InvalidSettings([*mistakes, *more])
    return SmokeConfig(**values)  # type: ignore[arg-type]  # SETTINGS reads each field as its type


# The smoke test of a cluster as submitters see it. Standard library only: a laptop reads it.
NAME = "smoke"
SUMMARY = "Try the devices and the network of a cluster"
MODULE = "slipway.containers.recipes.smoke.train"
ACCELERATORS = ("gaudi", "cuda", "cpu")
PARALLELISMS = ("data",)
