"""What a person may set of a tokenisation, `--set key=value`: read strictly, all mistakes told at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipway.containers.training.settings import (
    InvalidSettings,
    RelativePath,
    ValueKind,
    Whole,
    read_values,
    split_arguments,
)
from slipway.containers.training.text_location import TextLocation, shown_without_secrets

NO_END = "none"
_SHARE = re.compile(r"([0-9]{1,5})/([0-9]{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class TokenName:
    """Read a token as a vocabulary spells it."""

    wanted: str = "a token without blanks, such as <|endoftext|>, or none"

    def read(self, text: str) -> str | None:
        return text if 0 < len(text) <= 64 and text.isprintable() and " " not in text else None


@dataclass(frozen=True, slots=True)
class ArrayShare:
    """Read which share of an array's work a job does."""

    wanted: str = "a share of an array, counted from 0, such as 0/16 and 15/16"

    def read(self, text: str) -> str | None:
        found = _SHARE.fullmatch(text)
        return text if found and int(found[1]) < int(found[2]) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensConfig:
    input: str  # documents by line (.jsonl), text or dumps (.xml.bz2): a file, a folder, s3:// or https://
    vocabulary: str  # a tokenizer.json, or a folder with one or with GPT-2's vocab.json and merges.txt
    output: str  # a folder below the data folder; tokens.bin and tokens.idx are made in it
    field: str  # holds the text of a document that is a line of JSON
    end_of_document: str  # a token of the vocabulary that is put after each document; none: nothing is
    parts: int | None  # None: one per 64 MB of text
    share: str  # of an array of jobs: each makes its share of the parts, and the last one merges

    @property
    def array(self) -> tuple[int, int]:
        """Return the index and the size of the array."""
        index, _, size = self.share.partition("/")
        return int(index), int(size)


DEFAULTS: Mapping[str, str] = {
    "input": "text",
    "vocabulary": "tokenizer.json",
    "output": "tokens",
    "field": "text",
    "end_of_document": "<|endoftext|>",
    "share": "0/1",
}

SETTINGS: Mapping[str, ValueKind] = {
    "input": TextLocation(),
    "vocabulary": TextLocation(),
    "output": RelativePath(),
    "field": RelativePath(wanted="the name of a field, of letters, digits and . _ -"),
    "end_of_document": TokenName(),
    "parts": Whole(1, 100_000),
    "share": ArrayShare(),
}


def decode_arguments(arguments: Sequence[str]) -> TokensConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    given, mistakes = split_arguments(arguments, SETTINGS, shown_without_secrets)
    values, more = read_values({**DEFAULTS, **given}, SETTINGS, shown_without_secrets)
    if values["output"] in (values["input"], values["vocabulary"]):
        more.append(f"output is {values['output']}, which is read too; name another folder")
    if mistakes or more:
        raise InvalidSettings([*mistakes, *more])
    return TokensConfig(**values)  # type: ignore[arg-type]  # SETTINGS reads each field as its type


# Tokens for decoders from documents, as submitters see it. Standard library only.
NAME = "prepare_tokens"
SUMMARY = "Prepare tokens for decoders from documents"
MODULE = "slipway.containers.recipes.prepare_tokens.train"
ACCELERATORS = ("gaudi", "cuda", "neuron", "cpu")  # any machine: it uses the processors
USES_ACCELERATORS = False
PARALLELISMS = ("data",)
SHARE_SETTING = "share"  # of the work of an array of jobs
