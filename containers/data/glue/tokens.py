"""Texts of a GLUE task as token ids: [CLS] first [SEP] or [CLS] first [SEP] second [SEP], cut to a length.

All rows lie end to end in one array: nothing is padded here, so that batches can be as short as their rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.glue.texts import Texts
from slipway.containers.data.tokens.engine import (
    CLS,
    SENTENCE_PER_LINE,
    SEP,
    UNKNOWN,
    Counts,
    TokenSettings,
    Vocabulary,
    check_text_fits,
)
from slipway.containers.data.tokens.engine_native import NativeEngine

BLOCK_TEXTS = 4096  # tokenised at once
# A word of its own at the end of each text, so that a text without any token still is one of the engine's.
_END = b" ."

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    ids: Ids
    begins: NDArray[np.int64]  # of rows in ids; one more than there are rows
    firsts: Ids  # tokens of each row that are of the first segment
    labels: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.begins)

    @property
    def digest(self) -> str:
        parts = (self.ids, self.begins, self.firsts, self.labels)
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def tokenise(texts: Texts, vocabulary: Vocabulary, *, cased: bool, longest: int) -> Examples:
    split = _splitter(vocabulary, cased=cased)
    firsts = split(texts.first)
    seconds = split(texts.second) if texts.second else [None] * len(texts.first)
    _check(firsts, vocabulary)
    rows, first_lengths = [], []
    for first, second in zip(firsts, seconds, strict=True):
        row, first_length = _row(first, second, vocabulary, longest)
        rows.append(row)
        first_lengths.append(first_length)
    return Examples(
        ids=np.concatenate(rows).astype(np.int32),
        begins=np.cumsum([0, *map(len, rows)], dtype=np.int64),
        firsts=np.array(first_lengths, dtype=np.int32),
        labels=np.array(texts.labels, dtype=np.float32),
    )


def _row(
    first: Sequence[int], second: Sequence[int] | None, vocabulary: Vocabulary, longest: int
) -> tuple[list[int], int]:
    """Cut a row to `longest` tokens as the tokenizers library does with `longest_first`."""
    cls, sep = vocabulary.numbers[CLS], vocabulary.numbers[SEP]
    room = longest - (2 if second is None else 3)
    if second is None:
        row = [cls, *first[:room], sep]
        return row, len(row)
    kept_first, kept_second = _shares(len(first), len(second), room)
    row = [cls, *first[:kept_first], sep]
    return [*row, *second[:kept_second], sep], len(row)


def _shares(first: int, second: int, room: int) -> tuple[int, int]:
    """Return what each text keeps: the shorter keeps all if it needs less than half of the room."""
    if first + second <= room:
        return first, second
    shorter = min(first, second)
    longer = room - shorter
    if shorter > longer:
        shorter, longer = room // 2, room - room // 2
    return (shorter, longer) if first <= second else (longer, shorter)


Splitter = Callable[[Sequence[str]], list[Sequence[int]]]


def _splitter(vocabulary: Vocabulary, *, cased: bool) -> Splitter:
    settings = TokenSettings(phase=1, vocabulary=vocabulary, seed=0, duplicates=1, cased=cased)
    engine = NativeEngine(settings)

    def split(texts: Sequence[str]) -> list[Sequence[int]]:
        blocks = (texts[at : at + BLOCK_TEXTS] for at in range(0, len(texts), BLOCK_TEXTS))
        return [ids for block in blocks for ids in _block(engine, [text.encode() for text in block])]

    return split


def _block(engine: NativeEngine, texts: Sequence[bytes]) -> Iterator[Sequence[int]]:
    lines = [text.replace(b"\n", b" ") + _END for text in texts]
    engine.clear()
    engine.add(b"\n".join(lines), SENTENCE_PER_LINE)
    tokens, ends, _ = engine.numbers()
    if len(ends) == len(lines):
        yield from (tokens[begin : end - 1] for begin, end in pairwise([0, *ends]))
        return
    for line in lines:  # one of them is so long that the engine cuts it
        engine.clear()
        engine.add(line, SENTENCE_PER_LINE)
        yield engine.numbers()[0][:-1]


def _check(texts: Sequence[Sequence[int]], vocabulary: Vocabulary) -> None:
    unknown = vocabulary.numbers[UNKNOWN]
    counts = Counts(
        tokens=sum(map(len, texts)), unknown=sum(sum(each == unknown for each in ids) for ids in texts)
    )
    check_text_fits(counts, vocabulary.name)
