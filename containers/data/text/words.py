"""A chunk of text between blanks -> token ids, in Python; native/words.c says the same in C.

The rules are those of the tokenizers library's BertNormalizer, BertPreTokenizer and WordPiece. A "[MASK]" in
the text is three words and no mark: text cannot speak for the preparation.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway.containers.data.text.cased import cased_table
from slipway.containers.data.text.unicode_table import (
    CLASS_SHIFT,
    CODE,
    PAD,
    PUNCTUATION,
    SPACE,
    unicode_table,
)
from slipway.containers.data.tokens.vocabulary import UNKNOWN, Vocabulary

LONGEST_WORD_CHARACTERS = 100
MOST_CHUNKS = 1 << 18
LONGEST_KEPT = 64


class WordPieces:
    def __init__(self, vocabulary: Vocabulary, *, cased: bool) -> None:
        self._cased = cased
        self._numbers = vocabulary.numbers
        self._unknown = vocabulary.numbers[UNKNOWN]
        self._chunks: dict[bytes, tuple[int, ...]] = {}

    def ids_of(self, chunk: bytes) -> tuple[int, ...]:
        known = self._chunks.get(chunk)
        if known is not None:
            return known
        words = words_of(chunk.decode("utf-8"), cased=self._cased)
        ids = tuple(number for word in words for number in self._split(word))
        if len(chunk) <= LONGEST_KEPT:
            if len(self._chunks) >= MOST_CHUNKS:
                self._chunks.clear()
            self._chunks[chunk] = ids
        return ids

    def _split(self, word: str) -> list[int]:
        if len(word) > LONGEST_WORD_CHARACTERS:
            return [self._unknown]
        found, start = [], 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._numbers.get(prefix + word[start:end])
                if number is not None:
                    break
            else:
                return [self._unknown]
            found.append(number)
            start = end
        return found


def words_of(text: str, *, cased: bool) -> Iterator[str]:
    """Yield what the normaliser and the splitter leave of a text, word by word."""
    table = cased_table() if cased else unicode_table()
    word: list[int] = []
    waiting: list[int] = []  # marks, until the next character of class 0
    for item in (item for character in text for item in table.expand(ord(character))):
        if item >> CLASS_SHIFT & 0xFF:
            waiting.append(item)
            continue
        word += _in_order(waiting)
        code, stands_alone = item & CODE, item & (PAD | PUNCTUATION)
        if (stands_alone or code == SPACE) and word:
            yield _spelled(word)
        if stands_alone:
            yield chr(code)
        elif code not in (SPACE, 0):  # 0: a dropped mark that held others apart
            word.append(code)
    word += _in_order(waiting)
    if word:
        yield _spelled(word)


def _in_order(waiting: list[int]) -> list[int]:
    ordered = [item & CODE for item in sorted(waiting, key=lambda item: item >> CLASS_SHIFT & 0xFF)]
    waiting.clear()
    return ordered


def _spelled(word: list[int]) -> str:
    spelled = "".join(map(chr, word))
    word.clear()
    return spelled
