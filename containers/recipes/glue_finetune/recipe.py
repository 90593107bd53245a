"""Fine-tuning on GLUE as the planner and the submitters see it. Standard library only: a laptop reads it."""

from __future__ import annotations

from slipway.containers.recipes.glue_finetune.config import GlueConfig, decode_arguments

NAME = "glue_finetune"
SUMMARY = "Fine-tune BERT or DistilBERT on a task of GLUE"
MODULE = "slipway.containers.recipes.glue_finetune.train"
ACCELERATORS = ("cpu",)
PARALLELISMS = ("data",)
JOB_SETTINGS = ("start_from",)  # each names a job on the same cluster

__all__ = [
    "ACCELERATORS",
    "JOB_SETTINGS",
    "MODULE",
    "NAME",
    "PARALLELISMS",
    "SUMMARY",
    "GlueConfig",
    "decode_arguments",
]
