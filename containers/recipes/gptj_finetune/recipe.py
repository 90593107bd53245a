"""Fine-tuning of GPT-J as the planner and the submitters see it. Standard library only: a laptop reads it."""

from __future__ import annotations

from collections.abc import Sequence

from slipway.containers.recipes.gptj_finetune.config import GptjConfig, decode_arguments
from slipway.containers.recipes.gptj_finetune.defaults import SIZES as KNOWN_SIZES
from slipway.containers.recipes.gptj_finetune.ranks import refuse_layout

NAME = "gptj_finetune"
SUMMARY = "Fine-tune GPT-J on SST-2"
MODULE = "slipway.containers.recipes.gptj_finetune.train"
ACCELERATORS = ("cuda", "cpu")
PARALLELISMS = ("data", "sharded", "tensor", "pipeline")
SIZES = tuple(KNOWN_SIZES)
INPUT_SETTINGS = ("data", "held_out", "model")  # each may name a folder in S3


def refuse_ranks(arguments: Sequence[str], world: int, ranks_per_node: int) -> None:
    """Refuse ranks that the settings cannot be shared out to, before a machine is paid for."""
    config = decode_arguments(arguments)
    refuse_layout(config, config.layout_of(world, ranks_per_node))


__all__ = [
    "ACCELERATORS",
    "INPUT_SETTINGS",
    "MODULE",
    "NAME",
    "PARALLELISMS",
    "SIZES",
    "SUMMARY",
    "GptjConfig",
    "decode_arguments",
    "refuse_ranks",
]
