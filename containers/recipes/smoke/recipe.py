"""The smoke test of a cluster as submitters see it. Standard library only: a laptop reads it."""

from __future__ import annotations

from slipway.containers.recipes.smoke.config import SmokeConfig, decode_arguments

NAME = "smoke"
SUMMARY = "Try the devices and the network of a cluster"
MODULE = "slipway.containers.recipes.smoke.train"
ACCELERATORS = ("gaudi", "cuda", "cpu")
PARALLELISMS = ("data",)

__all__ = ["ACCELERATORS", "MODULE", "NAME", "PARALLELISMS", "SUMMARY", "SmokeConfig", "decode_arguments"]
