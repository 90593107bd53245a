"""BERT pre-training as the planner and the submitters see it. Standard library only: a laptop reads it."""

from __future__ import annotations

from slipway.containers.recipes.bert_pretrain.config import BertConfig, decode_arguments

NAME = "bert_pretrain"
SUMMARY = "Pre-train BERT on prepared rows"
MODULE = "slipway.containers.recipes.bert_pretrain.train"
ACCELERATORS = ("gaudi", "cuda", "cpu")
PARALLELISMS = ("data", "zero1", "zero2", "zero3", "sharded", "tensor", "pipeline")
SIZES = ("base", "large", "1.5b", "tiny")
JOB_SETTINGS = ("start_from",)  # each names a job on the same cluster

__all__ = [
    "ACCELERATORS",
    "JOB_SETTINGS",
    "MODULE",
    "NAME",
    "PARALLELISMS",
    "SIZES",
    "SUMMARY",
    "BertConfig",
    "decode_arguments",
]
