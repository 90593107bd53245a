"""Fine-tuning of GPT-J as the planner and the submitters see it. Standard library only: a laptop reads it."""

from __future__ import annotations

from slipway.containers.recipes.gptj_finetune.config import GptjConfig, decode_arguments
from slipway.containers.recipes.gptj_finetune.defaults import SIZES as KNOWN_SIZES

NAME = "gptj_finetune"
MODULE = "slipway.containers.recipes.gptj_finetune.train"
ACCELERATORS = ("cuda", "cpu")
PARALLELISMS = ("data", "sharded", "tensor", "pipeline")
SIZES = tuple(KNOWN_SIZES)
INPUT_SETTINGS = ("data", "held_out", "model")  # each may name a folder in S3

__all__ = [
    "ACCELERATORS",
    "INPUT_SETTINGS",
    "MODULE",
    "NAME",
    "PARALLELISMS",
    "SIZES",
    "GptjConfig",
    "decode_arguments",
]
