"""The settings of a preparation, `--set key=value`; all mistakes are reported at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from slipway.containers.data.sources.locations import is_remote
from slipway.containers.training.settings import MaybePath, Seed, choice, made, read_settings, whole
from slipway.containers.training.text_location import TEXT_LOCATION, shown_without_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareConfig:
    # Text or a folder of it below the data folder, s3://bucket/prefix or https://host/file.
    input: Annotated[str, TEXT_LOCATION] = "text"
    # A vocab.txt there, or in S3; None: a sample trains a small one.
    vocabulary: Annotated[str | None, TEXT_LOCATION] = None
    output: MaybePath = None  # None: phase1 or phase2
    phase: Annotated[int, whole(1, 2)] = 1
    duplicates: Annotated[int, whole(1, 100)] = 5  # the article's, and the reference's
    cased: Annotated[str, choice(("yes", "no"))] = "no"  # yes: capitals count, as in bert-base-cased
    seed: Seed = 12345
    shards: Annotated[int | None, whole(1, 100_000)] = None  # None: one per 32 MB of text
    # Above 0: made-up text of this size is written to input first.
    sample_megabytes: Annotated[int, whole(0, 1000)] = 0


# To train a vocabulary on the whole of Wikipedia takes a day of one processor while every node waits, and a
# model with words of its own fits no published one.
_NO_VOCABULARY = (
    "vocabulary is not set, and only a sample trains its own; "
    "set vocabulary=s3://bucket/datasets/vocab.txt or a path below the data folder"
)


def decode_arguments(arguments: Sequence[str]) -> PrepareConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    given, values, mistakes = read_settings(PrepareConfig, arguments, show=shown_without_secrets)
    if values["sample_megabytes"] and is_remote(str(values["input"])):
        place = shown_without_secrets(str(values["input"]))
        mistakes.append(f"sample_megabytes writes text to input, which is {place}; set one of the two")
    if values["vocabulary"] is None and "vocabulary" not in given and values["sample_megabytes"] == 0:
        mistakes.append(_NO_VOCABULARY)
    return made(PrepareConfig, values, mistakes)


# The preparation of BERT's pre-training data as submitters see it. Standard library only.
CONFIG = PrepareConfig
SUMMARY = "Prepare rows for BERT from documents"
MODULE = "slipway.containers.recipes.prepare_bert.train"
ACCELERATORS = ("gaudi", "cuda", "cpu")  # any machine: it uses the processors
USES_ACCELERATORS = False
