"""A chunk of text between blanks -> token ids, as native/words.c makes them: the library's WordPiece."""

from __future__ import annotations

from typing import Any

from slipway.containers.data.text.words import LONGEST_WORD_CHARACTERS, words_of
from slipway.containers.data.tokens.engine import UNKNOWN, Vocabulary

MOST_CHUNKS = 1 << 18
LONGEST_KEPT = 64


def library_tokenizer(vocabulary: Vocabulary, *, lowercase: bool) -> Any:
    """Return what the tokenizers library makes of the vocabulary: the truth about its tokens."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    tokenizer = Tokenizer(WordPiece(vocabulary.numbers, unk_token=UNKNOWN))
    tokenizer.normalizer = BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


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
