"""Fine-tuning on GLUE as the planner and the submitters see it. Standard library only: a laptop reads it."""

from __future__ import annotations

from slipway.containers.recipes.glue_finetune.config import GlueConfig, decode_arguments

NAME = "glue_finetune"
MODULE = "slipway.containers.recipes.glue_finetune.train"
ACCELERATORS = ("cpu",)
PARALLELISMS = ("data",)

__all__ = ["ACCELERATORS", "MODULE", "NAME", "PARALLELISMS", "GlueConfig", "decode_arguments"]
