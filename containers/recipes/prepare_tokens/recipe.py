"""Tokens for decoders from documents, as submitters see it. Standard library only."""

from __future__ import annotations

from slipway.containers.recipes.prepare_tokens.config import TokensConfig, decode_arguments

NAME = "prepare_tokens"
SUMMARY = "Prepare tokens for decoders from documents"
MODULE = "slipway.containers.recipes.prepare_tokens.train"
ACCELERATORS = ("gaudi", "cuda", "neuron", "cpu")  # any machine: it uses the processors
USES_ACCELERATORS = False
PARALLELISMS = ("data",)
SHARE_SETTING = "share"  # of the work of an array of jobs

__all__ = [
    "ACCELERATORS",
    "MODULE",
    "NAME",
    "PARALLELISMS",
    "SHARE_SETTING",
    "SUMMARY",
    "USES_ACCELERATORS",
    "TokensConfig",
    "decode_arguments",
]
