"""GPT-NeoX pre-training as the planner and the submitters see it. Standard library only."""

from __future__ import annotations

from slipway.containers.recipes.gpt_neox.config import GptNeoxConfig, decode_arguments

NAME = "gpt_neox"
MODULE = "slipway.containers.recipes.gpt_neox.train"
ACCELERATORS = ("neuron", "cuda", "cpu")
PARALLELISMS = ("data", "sharded", "tensor", "pipeline")
SIZES = ("neox-20b", "pythia-6.9b", "tiny")
JOB_SETTINGS = ("start_from",)  # each names a job on the same cluster

__all__ = [
    "ACCELERATORS",
    "JOB_SETTINGS",
    "MODULE",
    "NAME",
    "PARALLELISMS",
    "SIZES",
    "GptNeoxConfig",
    "decode_arguments",
]
