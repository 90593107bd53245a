"""The settings of a corpus, `--set key=value`; all mistakes are reported at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from slipway.containers.training.settings import FieldName, PathBelow, choice, made, read_settings, whole
from slipway.containers.training.text_location import TEXT_LOCATION, shown_without_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusConfig:
    # Dumps (.xml.bz2), documents by line (.jsonl) or text: a file, a folder, s3:// or https://
    input: Annotated[str, TEXT_LOCATION] = "dump"
    output: PathBelow = "corpus"  # a folder below the data folder
    # Holds the text of a document that is a line of JSON.
    field: FieldName = "text"
    vocabulary_entries: Annotated[int, whole(0, 1_000_000)] = 0  # 0: none is trained
    cased: Annotated[str, choice(("yes", "no"))] = "no"
    parts: Annotated[int | None, whole(1, 100_000)] = None  # None: one per 64 MB of text


def decode_arguments(arguments: Sequence[str]) -> CorpusConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    _, values, mistakes = read_settings(CorpusConfig, arguments, show=shown_without_secrets)
    if values["input"] == values["output"]:
        mistakes.append(f"output is {values['output']}, which is the input too; name another folder")
    return made(CorpusConfig, values, mistakes)


# Documents and a vocabulary from a dump, as submitters see it. Standard library only.
NAME = "prepare_corpus"
CONFIG = CorpusConfig
SUMMARY = "Make documents and a vocabulary from a dump of Wikipedia"
MODULE = "slipway.containers.recipes.prepare_corpus.train"
ACCELERATORS = ("gaudi", "cuda", "cpu")  # any machine: it uses the processors
USES_ACCELERATORS = False
