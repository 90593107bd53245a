"""Does what the compiled core does, in plain Python: slowly, as the specification for its tests."""

from __future__ import annotations

from slipway.containers.data.text.words import chunks_of
from slipway.containers.data.tokens.engine import (
    CLS,
    LONGEST_SENTENCE_TOKENS,
    PAD,
    SENTENCE_PER_LINE,
    SEP,
    TAGGED,
    UNKNOWN,
    Counts,
    RowBlock,
    TokenSettings,
)
from tests.containers.data.tokens.reference.pairs import CorpusUnit, Pair, make_pairs, mask
from tests.containers.data.tokens.reference.sentences import sentences_of
from tests.containers.data.tokens.reference.words import WordPieces


class PythonEngine:
    def __init__(self, settings: TokenSettings) -> None:
        self._settings = settings
        self._words = WordPieces(settings.vocabulary, cased=settings.cased)
        self.clear()

    def clear(self) -> None:
        self._tokens: list[int] = []
        self._sentences: list[int] = []
        self._documents: list[int] = []
        self._pairs: list[Pair] = []
        self._stream = 0

    def add(self, text: bytes, style: int) -> None:
        for line in text.split(b"\n"):
            is_tag = style & TAGGED and line.startswith((b"<doc ", b"</doc>"))
            chunks = chunks_of(line)
            if is_tag or (not chunks and not style & TAGGED):
                self._close_document()
            elif chunks:
                self._add_line(chunks, style)
        self._close_document()

    def counts(self) -> Counts:
        return Counts(
            documents=len(self._documents),
            sentences=len(self._sentences),
            tokens=len(self._tokens),
            unknown=self._tokens.count(self._settings.vocabulary.numbers[UNKNOWN]),
        )

    def numbers(self) -> tuple[list[int], list[int], list[int]]:
        return list(self._tokens), list(self._sentences), list(self._documents)

    def pair(self, stream: int) -> int:
        stretch = CorpusUnit(self._sentences, self._documents).halved()
        self._documents, self._stream = stretch.documents, stream
        self._pairs = make_pairs(stretch, self._settings, stream)
        return len(self._pairs)

    def fill(self, start: int, count: int, block: RowBlock, at: int) -> None:
        for row, pair in enumerate(self._pairs[start : start + count], at):
            self._fill_row(pair, block, row)

    def _add_line(self, chunks: list[bytes], style: int) -> None:
        for sentence in [chunks] if style & SENTENCE_PER_LINE else sentences_of(chunks):
            for chunk in sentence:
                self._tokens += self._words.ids_of(chunk)
            self._close_sentence()

    def _close_sentence(self) -> None:
        begin, end = (self._sentences or [0])[-1], len(self._tokens)
        self._sentences += range(begin + LONGEST_SENTENCE_TOKENS, end, LONGEST_SENTENCE_TOKENS)
        if end > begin:
            self._sentences.append(end)

    def _close_document(self) -> None:
        if len(self._sentences) > (self._documents or [0])[-1]:
            self._documents.append(len(self._sentences))

    def _fill_row(self, pair: Pair, block: RowBlock, row: int) -> None:
        numbers = self._settings.vocabulary.numbers
        a, b = ([self._tokens[at] for at in stretch] for stretch in (pair.first, pair.second))
        ids = [numbers[CLS], *a, numbers[SEP], *b, numbers[SEP]]
        used = len(ids)
        places, labels = mask(ids, pair, self._settings, self._stream)
        values = {
            "input_ids": (ids, numbers[PAD]),
            "input_mask": ([1] * used, 0),
            "segment_ids": ([0] * (len(a) + 2) + [1] * (len(b) + 1), 0),
            "masked_lm_positions": (places, 0),
            "masked_lm_ids": (labels, 0),
        }
        for key, (found, padding) in values.items():
            array = block.arrays[key][row]
            array[:] = padding
            array[: len(found)] = found
        block.arrays["next_sentence_labels"][row] = pair.is_random
