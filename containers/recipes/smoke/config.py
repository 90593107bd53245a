"""The settings of a smoke test, `--set key=value`; all mistakes are reported at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from slipway.containers.training.settings import Device, choice, made, read_settings, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeConfig:
    device: Device = "auto"
    largest_mib: Annotated[int, whole(1, 4096)] = 64  # of the tensors that are reduced
    repeats: Annotated[int, whole(1, 1000)] = 5  # of each size, of which the time is the mean
    # Train a small model in every layout that the ranks allow, and compare it with one rank.
    layouts: Annotated[str, choice(("yes", "no"))] = "yes"


def decode_arguments(arguments: Sequence[str]) -> SmokeConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    _, values, mistakes = read_settings(SmokeConfig, arguments)
    return made(SmokeConfig, values, mistakes)


# The smoke test of a cluster as submitters see it. Standard library only: a laptop reads it.
CONFIG = SmokeConfig
SUMMARY = "Try the devices and the network of a cluster"
MODULE = "slipway.containers.recipes.smoke.train"
ACCELERATORS = ("gaudi", "cuda", "cpu")
