"""A user's own command in a user's own folder, as submitters see it. Standard library only.

`slipway run` writes the settings; there is nothing of the training that Slipway knows.
"""

from __future__ import annotations

from slipway.containers.recipes.command.config import CommandConfig, decode_arguments, refuse_ranks

NAME = "command"
SUMMARY = "Run your own command in your own folder: slipway run"
MODULE = "slipway.containers.recipes.command.train"
ACCELERATORS = ("gaudi", "cuda", "neuron", "cpu")
PARALLELISMS = ("data",)
CODE_SETTINGS = ("source",)

__all__ = [
    "ACCELERATORS",
    "CODE_SETTINGS",
    "MODULE",
    "NAME",
    "PARALLELISMS",
    "SUMMARY",
    "CommandConfig",
    "decode_arguments",
    "refuse_ranks",
]
