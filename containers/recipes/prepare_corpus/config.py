"""What a person may set of a corpus, `--set key=value`: read strictly, all mistakes told at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipway.containers.training.settings import (
    Choice,
    InvalidSettings,
    RelativePath,
    ValueKind,
    Whole,
    read_values,
    split_arguments,
)
from slipway.containers.training.text_location import TextLocation, shown_without_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusConfig:
    input: str  # dumps (.xml.bz2), documents by line (.jsonl) or text: a file, a folder, s3:// or https://
    output: str  # a folder below the data folder
    field: str  # holds the text of a document that is a line of JSON
    vocabulary_entries: int  # 0: none is trained
    cased: str
    parts: int | None  # None: one per 64 MB of text


DEFAULTS: Mapping[str, str] = {
    "input": "dump",
    "output": "corpus",
    "field": "text",
    "vocabulary_entries": "0",
    "cased": "no",
}

SETTINGS: Mapping[str, ValueKind] = {
    "input": TextLocation(),
    "output": RelativePath(),
    "field": RelativePath(wanted="the name of a field, of letters, digits and . _ -"),
    "vocabulary_entries": Whole(0, 1_000_000),
    "cased": Choice(("yes", "no")),
    "parts": Whole(1, 100_000),
}


def decode_arguments(arguments: Sequence[str]) -> CorpusConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    given, mistakes = split_arguments(arguments, SETTINGS, shown_without_secrets)
    values, more = read_values({**DEFAULTS, **given}, SETTINGS, shown_without_secrets)
    if values["input"] == values["output"]:
        more.append(f"output is {values['output']}, which is the input too; name another folder")
    if mistakes or more:
        raise InvalidSettings([*mistakes, *more])
    return CorpusConfig(**values)  # type: ignore[arg-type]  # SETTINGS reads each field as its type


# Documents and a vocabulary from a dump, as submitters see it. Standard library only.
NAME = "prepare_corpus"
SUMMARY = "Make documents and a vocabulary from a dump of Wikipedia"
MODULE = "slipway.containers.recipes.prepare_corpus.train"
ACCELERATORS = ("gaudi", "cuda", "cpu")  # any machine: it uses the processors
USES_ACCELERATORS = False
PARALLELISMS = ("data",)
