"""The settings of a tokenisation, `--set key=value`; all mistakes are reported at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from slipway.containers.training.settings import FieldName, PathBelow, ValueKind, made, read_settings, whole
from slipway.containers.training.text_location import TEXT_LOCATION, shown_without_secrets

NO_END = "none"
_SHARE = re.compile(r"([0-9]{1,5})/([0-9]{1,5})", re.ASCII)


def _token_name(text: str) -> str | None:
    return text if 0 < len(text) <= 64 and text.isprintable() and " " not in text else None


def _array_share(text: str) -> str | None:
    found = _SHARE.fullmatch(text)
    return text if found and int(found[1]) < int(found[2]) else None


# As a vocabulary spells it.
TOKEN_NAME = ValueKind("a token without blanks, such as <|endoftext|>, or none", _token_name)
ARRAY_SHARE = ValueKind("a share of an array, counted from 0, such as 0/16 and 15/16", _array_share)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensConfig:
    # Documents by line (.jsonl), text or dumps (.xml.bz2): a file, a folder, s3:// or https://
    input: Annotated[str, TEXT_LOCATION] = "text"
    # A tokenizer.json, or a folder with one or with GPT-2's vocab.json and merges.txt.
    vocabulary: Annotated[str, TEXT_LOCATION] = "tokenizer.json"
    output: PathBelow = "tokens"  # a folder below the data folder; tokens.bin and tokens.idx are made in it
    # Holds the text of a document that is a line of JSON.
    field: FieldName = "text"
    # A token of the vocabulary that is put after each document; none: nothing is.
    end_of_document: Annotated[str, TOKEN_NAME] = "<|endoftext|>"
    parts: Annotated[int | None, whole(1, 100_000)] = None  # None: one per 64 MB of text
    # In an array of jobs, each makes its share of the parts, and the last one merges.
    share: Annotated[str, ARRAY_SHARE] = "0/1"

    @property
    def array(self) -> tuple[int, int]:
        """Return the index and the size of the array."""
        index, _, size = self.share.partition("/")
        return int(index), int(size)


def decode_arguments(arguments: Sequence[str]) -> TokensConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    _, values, mistakes = read_settings(TokensConfig, arguments, show=shown_without_secrets)
    if values["output"] in (values["input"], values["vocabulary"]):
        mistakes.append(f"output is {values['output']}, which is read too; name another folder")
    return made(TokensConfig, values, mistakes)


# Tokens for decoders from documents, as submitters see it. Standard library only.
NAME = "prepare_tokens"
CONFIG = TokensConfig
SUMMARY = "Prepare tokens for decoders from documents"
MODULE = "slipway.containers.recipes.prepare_tokens.train"
ACCELERATORS = ("gaudi", "cuda", "neuron", "neuron2", "cpu")  # any machine: it uses the processors
USES_ACCELERATORS = False
SHARE_SETTING = "share"  # of the work of an array of jobs
