"""Fine-tuning of GPT-J as the planner and the submitters see it. Standard library only: a laptop reads it."""

from __future__ import annotations

from slipway.containers.recipes.gptj_finetune.config import GptjConfig, decode_arguments
from slipway.containers.recipes.gptj_finetune.defaults import SIZES as KNOWN_SIZES

NAME = "gptj_finetune"
MODULE = "slipway.containers.recipes.gptj_finetune.train"
ACCELERATORS = ("cuda", "cpu")
PARALLELISMS = ("data", "sharded", "tensor", "pipeline")
SIZES = tuple(KNOWN_SIZES)

__all__ = ["ACCELERATORS", "MODULE", "NAME", "PARALLELISMS", "SIZES", "GptjConfig", "decode_arguments"]
