"""The preparation of BERT's pre-training data as submitters see it. Standard library only."""

from __future__ import annotations

from slipway.containers.recipes.prepare_bert.config import PrepareConfig, decode_arguments

NAME = "prepare_bert"
SUMMARY = "Prepare rows for BERT from documents"
MODULE = "slipway.containers.recipes.prepare_bert.train"
ACCELERATORS = ("gaudi", "cuda", "cpu")  # any machine: it uses the processors
USES_ACCELERATORS = False
PARALLELISMS = ("data",)

__all__ = [
    "ACCELERATORS",
    "MODULE",
    "NAME",
    "PARALLELISMS",
    "SUMMARY",
    "USES_ACCELERATORS",
    "PrepareConfig",
    "decode_arguments",
]
