"""Turn texts of a GLUE task into rows of token ids, cut to a length.

A row is [CLS] first [SEP] or [CLS] first [SEP] second [SEP].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from slipway.containers.data.glue.node_rows import EncodedRows
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
from slipway.containers.runtime.collective import Json

BLOCK_TEXTS = 4096  # tokenised at once
# One more word at the end of each text, removed afterwards: the engine skips texts without a token.
_END = b" ."


@dataclass(frozen=True, slots=True, kw_only=True)
class WordPieces:
    """Make the rows that a classifier on an encoder reads."""

    vocabulary: Vocabulary
    is_cased: bool
    longest: int  # tokens of a row at most

    @property
    def identity(self) -> list[Json]:
        return ["word pieces", self.vocabulary.digest, self.is_cased, self.longest]

    def encode(self, texts: Texts) -> EncodedRows:
        settings = TokenSettings(
            phase=1, vocabulary=self.vocabulary, seed=0, duplicates=1, cased=self.is_cased
        )
        engine = NativeEngine(settings)
        firsts = list(_split(engine, texts.first))
        seconds: Sequence[Sequence[int] | None] = [None] * len(firsts)
        if texts.second:
            seconds = list(_split(engine, texts.second))
        unknown = self.vocabulary.numbers[UNKNOWN]
        counts = Counts(
            tokens=sum(map(len, firsts)), unknown=sum(sum(each == unknown for each in ids) for ids in firsts)
        )
        check_text_fits(counts, self.vocabulary.name)
        rows = [
            _row(first, second, self.vocabulary, self.longest)
            for first, second in zip(firsts, seconds, strict=True)
        ]
        return EncodedRows.of([row for row, _ in rows], [first for _, first in rows], texts.labels)


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
    """Return how many tokens each text keeps: the shorter keeps all if it needs at most half of the room."""
    if first + second <= room:
        return first, second
    shorter = min(first, second)
    longer = room - shorter
    if shorter > longer:
        shorter, longer = room // 2, room - room // 2
    return (shorter, longer) if first <= second else (longer, shorter)


def _split(engine: NativeEngine, texts: Sequence[str]) -> Iterator[Sequence[int]]:
    """Yield the token ids of each text."""
    for at in range(0, len(texts), BLOCK_TEXTS):
        lines = [text.encode().replace(b"\n", b" ") + _END for text in texts[at : at + BLOCK_TEXTS]]
        engine.clear()
        engine.add(b"\n".join(lines), SENTENCE_PER_LINE)
        tokens, ends, _ = engine.numbers()
        if len(ends) == len(lines):
            yield from (tokens[begin : end - 1] for begin, end in pairwise([0, *ends]))
            continue
        for line in lines:  # one by one: the engine cuts a text that is too long, so there are too many ends
            engine.clear()
            engine.add(line, SENTENCE_PER_LINE)
            yield engine.numbers()[0][:-1]
