"""The inputs and outputs of the compiled core: phases, settings, WordPiece vocabularies, counts and rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.errors import DataError
from slipway.containers.runtime.named_files import UnusableFile, read_bytes

SENTENCE_PER_LINE, TAGGED = 1, 2  # native/text.c

# Words whose full stop does not end a sentence; single letters (J., U.S., e.g.) need no entry.
_ABBREVIATIONS = (
    "Mr Mrs Ms Dr Prof Sr Jr St Mt Ft Gen Col Lt Sgt Capt Cmdr Adm Maj Rev Hon Gov Sen Rep Pres Messrs "
    "vs etc ca cf al approx est ed eds vol No Nos pp p Fig fig figs ch sec op cit viz "
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Inc Ltd Co Corp Bros Dept Univ"
)
ABBREVIATIONS = tuple(_ABBREVIATIONS.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    unknown: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            documents=self.documents + other.documents,
            sentences=self.sentences + other.sentences,
            tokens=self.tokens + other.tokens,
            unknown=self.unknown + other.unknown,
        )


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Hold arrays for some rows, named and laid out as in the reference's HDF5 files."""

    rows: int
    row_tokens: int
    predictions: int
    arrays: dict[str, NDArray[np.int32] | NDArray[np.int8]] = field(init=False)

    def __post_init__(self) -> None:
        layout = layout_of(self.row_tokens, self.predictions)
        arrays = {key: np.zeros((self.rows, *shape), kind) for key, (kind, shape) in layout.items()}
        object.__setattr__(self, "arrays", arrays)


def layout_of(
    row_tokens: int, predictions: int
) -> dict[str, tuple[type[np.int32] | type[np.int8], tuple[int, ...]]]:
    return {
        "input_ids": (np.int32, (row_tokens,)),
        "input_mask": (np.int8, (row_tokens,)),
        "segment_ids": (np.int8, (row_tokens,)),
        "masked_lm_positions": (np.int32, (predictions,)),
        "masked_lm_ids": (np.int32, (predictions,)),
        "next_sentence_labels": (np.int8, ()),
    }


def check_text_fits(counts: Counts, vocabulary: str) -> None:
    """Refuse text that the vocabulary does not know, such as another language, before hours are spent."""
    if counts.tokens >= 1000 and counts.unknown * 2 > counts.tokens:
        raise DataError(
            f"{counts.unknown} of {counts.tokens} tokens are unknown to {vocabulary}",
            hint="give the vocabulary that belongs to this text's language",
        )


# The two phases of pre-training, and the constants of BERT's published create_pretraining_data.py: Devlin et
# al., "BERT" (2019), appendix A.1 and A.2. A new phase is one entry of PHASES.
SHORT_SHARE = 0.1
MASKED_SHARE = 0.15
REPLACED_SHARE = 0.8
KEPT_SHARE = 0.1  # of the masked tokens; the rest becomes a random token
LONGEST_ROW_TOKENS = 512  # native/core.h: MAX_ROW
# A longer sentence, such as text without full stops, is cut here, so that it still makes examples.
LONGEST_SENTENCE_TOKENS = 1024
MOST_DUPLICATES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    row_tokens: int
    predictions: int


PHASES: Mapping[int, Phase] = {
    1: Phase(row_tokens=128, predictions=20),
    2: Phase(row_tokens=512, predictions=80),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    phase: int
    vocabulary: Vocabulary
    seed: int
    duplicates: int
    cased: bool = False
    has_sentence_per_line: bool = False

    def __post_init__(self) -> None:
        _check("--phase", self.phase, min(PHASES), max(PHASES))
        _check("--duplicates", self.duplicates, 1, MOST_DUPLICATES)
        _check("--seed", self.seed, 0, 2**63 - 1)
        # Training takes the token 0 for padding, so it would never learn a word with that number.
        if number := self.vocabulary.numbers[PAD]:
            raise DataError(
                f"{self.vocabulary.name}:{number + 1} is {PAD}, and pre-training needs it in line 1",
                hint="give BERT's vocab.txt, or move that line to the top",
            )

    @property
    def row_tokens(self) -> int:
        return PHASES[self.phase].row_tokens

    @property
    def predictions(self) -> int:
        return PHASES[self.phase].predictions

    def masked_of_length(self) -> list[int]:
        """Return the number of predicted tokens for rows of 0, 1, 2 … used positions."""
        return [
            min(self.predictions, max(1, round(used * MASKED_SHARE))) for used in range(self.row_tokens + 1)
        ]


def threshold(share: float) -> int:
    """Return the number that this share of all random 64-bit numbers lies below."""
    return round(share * 2**64)


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise DataError(f"{name} is {value}", hint=f"give a number from {least} to {most}")


# A WordPiece vocabulary has one entry per line; the number of the line, from 0, is the entry's token id.
PAD, UNKNOWN, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL = (PAD, UNKNOWN, CLS, SEP, MASK)
MOST_ENTRIES = 1_000_000
MOST_BYTES = 64 << 20  # BERT's vocabulary has 232 kB


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    entries: tuple[str, ...]
    name: str = "vocabulary"
    numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", {entry: number for number, entry in enumerate(self.entries)})
        missing = [entry for entry in SPECIAL if entry not in self.numbers]
        if missing:
            lines = len(self.entries)
            raise DataError(
                f"{self.name} is not a WordPiece vocabulary: {missing[0]} is not in its {lines} lines",
                hint="give BERT's vocab.txt, one entry per line",
            )
        for number, entry in enumerate(self.entries):
            if entry.split() != [entry]:
                raise DataError(
                    f"{self.name}:{number + 1} is {entry!r}", hint="an entry has no blanks and is not empty"
                )
            if self.numbers[entry] != number:
                raise DataError(
                    f"{self.name}:{self.numbers[entry] + 1} repeats {entry!r} of line {number + 1}",
                    hint="every entry must be unique",
                )

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.entries).encode()).hexdigest()


def read_vocabulary(path: Path) -> Vocabulary:
    try:
        return parse_vocabulary(str(path), read_bytes(path, MOST_BYTES))
    except UnusableFile as error:
        raise DataError(f"the vocabulary {error.message}", hint=error.hint) from error


def parse_vocabulary(name: str, content: bytes) -> Vocabulary:
    """Parse vocab.txt; `name` is its path or address, for messages."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: byte {error.start} is not UTF-8", hint="give BERT's vocab.txt") from error
    # The tokenizers library strips trailing white space, such as carriage returns.
    entries = tuple(line.rstrip() for line in text.removesuffix("\n").split("\n"))
    if len(entries) > MOST_ENTRIES:
        raise DataError(f"{name} has {len(entries)} lines", hint=f"a vocabulary has at most {MOST_ENTRIES}")
    return Vocabulary(entries=entries, name=name)


def write_vocabulary(vocabulary: Vocabulary, path: Path) -> None:
    path.write_text("".join(f"{entry}\n" for entry in vocabulary.entries), encoding="utf-8")
