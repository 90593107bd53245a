"""What a person may set of a preparation, `--set key=value`: read strictly, all mistakes told at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipway.containers.data.sources.locations import is_remote
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
class PrepareConfig:
    input: str  # text or a folder of it below the data folder, s3://bucket/prefix or https://host/file
    vocabulary: str | None  # a vocab.txt there, or in S3; None: a sample trains a small one
    output: str | None  # None: phase1 or phase2
    phase: int
    duplicates: int
    cased: str  # yes: capitals count, as in bert-base-cased
    seed: int
    shards: int | None  # None: one per 32 MB of text
    sample_megabytes: int  # above 0: made-up text of this size is written to input first


DEFAULTS: Mapping[str, str] = {
    "input": "text",
    "phase": "1",
    "duplicates": "5",  # the article's, and the reference's
    "cased": "no",
    "seed": "12345",
    "sample_megabytes": "0",
}

SETTINGS: Mapping[str, ValueKind] = {
    "input": TextLocation(),
    "vocabulary": TextLocation(),
    "output": RelativePath(),
    "phase": Whole(1, 2),
    "duplicates": Whole(1, 100),
    "cased": Choice(("yes", "no")),
    "seed": Whole(0, 2**31 - 1),
    "shards": Whole(1, 100_000),
    "sample_megabytes": Whole(0, 1000),
}


# One trained on the whole of Wikipedia would take a day of one processor while every node waits, and a model
# with words of its own fits no published one.
_NO_VOCABULARY = (
    "vocabulary is not set, and only a sample trains its own; "
    "set vocabulary=s3://bucket/datasets/vocab.txt or a path below the data folder"
)


def decode_arguments(arguments: Sequence[str]) -> PrepareConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    given, mistakes = split_arguments(arguments, SETTINGS, shown_without_secrets)
    values, more = read_values({**DEFAULTS, **given}, SETTINGS, shown_without_secrets)
    if values["sample_megabytes"] and is_remote(str(values["input"])):
        place = shown_without_secrets(str(values["input"]))
        more.append(f"sample_megabytes writes text to input, which is {place}; set one of the two")
    if values["vocabulary"] is None and "vocabulary" not in given and values["sample_megabytes"] == 0:
        more.append(_NO_VOCABULARY)
    if mistakes or more:
        raise InvalidSettings([*mistakes, *more])
    return PrepareConfig(**values)  # type: ignore[arg-type]  # SETTINGS reads each field as its type


# The preparation of BERT's pre-training data as submitters see it. Standard library only.
NAME = "prepare_bert"
SUMMARY = "Prepare rows for BERT from documents"
MODULE = "slipway.containers.recipes.prepare_bert.train"
ACCELERATORS = ("gaudi", "cuda", "cpu")  # any machine: it uses the processors
USES_ACCELERATORS = False
PARALLELISMS = ("data",)
