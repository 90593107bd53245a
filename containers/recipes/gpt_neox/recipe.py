"""GPT-NeoX pre-training as the planner and the submitters see it. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence

from slipway.containers.recipes.gpt_neox.config import GptNeoxConfig, decode_arguments
from slipway.containers.training.batch import share_batch

NAME = "gpt_neox"
SUMMARY = "Pre-train GPT-NeoX or Pythia on prepared tokens"
MODULE = "slipway.containers.recipes.gpt_neox.train"
ACCELERATORS = ("neuron", "cuda", "cpu")
PARALLELISMS = ("data", "sharded", "tensor", "pipeline")
SIZES = ("neox-20b", "pythia-6.9b", "tiny")
JOB_SETTINGS = ("start_from",)  # each names a job on the same cluster


def refuse_ranks(arguments: Sequence[str], world: int, ranks_per_node: int) -> None:
    """Refuse ranks that the settings cannot be shared out to, before a machine is paid for."""
    config = decode_arguments(arguments)
    share_batch(config.global_batch, config.micro_batch, config.layout_of(world, ranks_per_node).readers)


__all__ = [
    "ACCELERATORS",
    "JOB_SETTINGS",
    "MODULE",
    "NAME",
    "PARALLELISMS",
    "SIZES",
    "SUMMARY",
    "GptNeoxConfig",
    "decode_arguments",
    "refuse_ranks",
]
