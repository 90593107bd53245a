"""Documents and a vocabulary from a dump, as submitters see it. Standard library only."""

from __future__ import annotations

from slipway.containers.recipes.prepare_corpus.config import CorpusConfig, decode_arguments

NAME = "prepare_corpus"
SUMMARY = "Make documents and a vocabulary from a dump of Wikipedia"
MODULE = "slipway.containers.recipes.prepare_corpus.train"
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
    "CorpusConfig",
    "decode_arguments",
]
