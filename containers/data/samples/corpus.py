"""A corpus of made-up words, to try things with: the same seed gives the same text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from slipway.containers.data.errors import DataError

WORDS = 8000
SYLLABLES = [
    a + b
    for a in ("b", "br", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v")
    for b in "aeiou"
]
ENDS = ("", "", "", "n", "r", "s", "t", "ng")
FOLLOWERS = 4  # of each word, so that there is something to learn: 2 of 3 words follow from the one before
FOLLOWED_SHARE = 2 / 3


class Author:
    """Write made-up text: Zipf's law for the words, one Markov step for their order."""

    def __init__(self, seed: int, words: int = WORDS) -> None:
        self._random = random.Random(seed)  # noqa: S311  # words, not secrets
        self._words = self._make_words(words)
        self._weights = list(accumulate(1 / rank for rank in range(1, words + 1)))
        self._followers = [self._pick(FOLLOWERS) for _ in range(words)]

    def document(self) -> str:
        return "\n".join(
            " ".join(self._sentence() for _ in range(self._random.randint(2, 6)))
            for _ in range(self._random.randint(2, 8))
        )

    def _sentence(self) -> str:
        word = self._pick(1)[0]
        words = []
        for _ in range(self._random.randint(5, 28)):
            words.append(self._words[word])
            follows = self._random.random() < FOLLOWED_SHARE
            word = self._random.choice(self._followers[word]) if follows else self._pick(1)[0]
        if len(words) > 12:
            words[len(words) // 2] += ","
        return " ".join(words).capitalize() + self._random.choices(".!?", (18, 1, 1))[0]

    def _pick(self, count: int) -> list[int]:
        return self._random.choices(range(len(self._words)), cum_weights=self._weights, k=count)

    def _make_words(self, count: int) -> list[str]:
        words: dict[str, None] = {}
        while len(words) < count:
            syllables = 1 + (len(words) >= 100) + (len(words) >= 1000)  # frequent words are short
            stem = "".join(self._random.choices(SYLLABLES, k=self._random.randint(1, syllables)))
            words[stem + self._random.choice(ENDS)] = None
        return list(words)


def documents(author: Author, size_bytes: int) -> Iterator[str]:
    written = 0
    while written < size_bytes:
        document = author.document() + "\n\n"
        written += len(document)
        yield document


def write_sample(path: Path, seed: int, size_bytes: int, words: int = WORDS) -> None:
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(documents(Author(seed, words), size_bytes))
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}") from error
