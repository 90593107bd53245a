"""Made-up text for demos and tests: a corpus, tasks in GLUE's layout, and a BPE vocabulary for them.

The same seed gives the same text. Another task is a row of ROWS.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import accumulate
from pathlib import Path

from slipway.containers.data.errors import DataError, unwritable

WORDS = 8000
SYLLABLES = [
    a + b
    for a in ("b", "br", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v")
    for b in "aeiou"
]
ENDS = ("", "", "", "n", "r", "s", "t", "ng")
FOLLOWERS = 4  # per word. Two of three words are a follower of the word before, so a model can learn them.
FOLLOWED_SHARE = 2 / 3


class Author:
    """Write made-up text: Zipf's law for the words, one Markov step for their order."""

    def __init__(self, seed: int, words: int = WORDS) -> None:
        self._random = random.Random(seed)  # noqa: S311  # words, not secrets
        found: dict[str, None] = {}
        while len(found) < words:
            syllables = 1 + (len(found) >= 100) + (len(found) >= 1000)  # frequent words are short
            stem = "".join(self._random.choices(SYLLABLES, k=self._random.randint(1, syllables)))
            found[stem + self._random.choice(ENDS)] = None
        self._words = list(found)
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
        raise unwritable(path, error) from error


# Made-up tasks in GLUE's layout. A sentence has one of two moods, and each mood has marker words. They give
# away the label, in the second sentence of mrpc and in the sentence of sst2, so a tiny model without
# pre-training learns a task in an epoch or two.
TRAIN_ROWS, DEV_ROWS = 1200, 240
GLUE_WORDS = 300
SAME_SHARE = 0.6  # of pairs; in the real MRPC it is two thirds
MEAN_WORDS, SPREAD_WORDS = 24, 6  # of a sentence: pairs have 53 tokens on average, as in the real MRPC
SHORTEST, LONGEST = 5, 45
_MARKERS = 24  # words of each mood


def write_task(folder: Path, task: str, *, seed: int = 1, train_rows: int = TRAIN_ROWS) -> None:
    """Write train.tsv and dev.tsv; the same seed gives the same files."""
    if task not in ROWS:
        raise DataError(f"there is no sample of {task!r}", hint=f"choose from {', '.join(ROWS)}")
    heading, rows = ROWS[task]
    source = random.Random(seed)  # noqa: S311  # words, not secrets
    words = make_words(source)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, count in (("train", train_rows), ("dev", DEV_ROWS)):
            made = rows(source, words)
            lines = [heading, *("\t".join(next(made)) for _ in range(count))]
            (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise unwritable(folder, error) from error


def make_words(source: random.Random) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < GLUE_WORDS:
        words["".join(source.choices(SYLLABLES, k=2)) + source.choice(ENDS)] = None
    return list(words)


def _pairs(source: random.Random, words: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield pairs; if the label is 1, the second sentence has the words of the first in another order."""
    number = 0
    while True:
        same = source.random() < SAME_SHARE
        first = _sentence(source, words, mood=0)
        if same:
            of_first = first.removesuffix(".").lower().split()
            second = " ".join(source.sample(of_first, k=len(of_first))).capitalize() + "."
        else:
            second = _sentence(source, words, mood=1)
        number += 2
        yield str(int(same)), str(number), str(number + 1), first, second


def _moods(source: random.Random, words: list[str]) -> Iterator[tuple[str, ...]]:
    while True:
        mood = source.randrange(2)
        yield _sentence(source, words, mood=mood), str(mood)


def _sentence(source: random.Random, words: list[str], *, mood: int) -> str:
    length = min(LONGEST, max(SHORTEST, round(source.gauss(MEAN_WORDS, SPREAD_WORDS))))
    markers = words[mood * _MARKERS : (mood + 1) * _MARKERS]
    others = words[2 * _MARKERS :]
    chosen = [source.choice(markers if source.random() < 0.3 else others) for _ in range(length)]
    chosen[source.randrange(length)] = source.choice(markers)
    return " ".join(chosen).capitalize() + "."


ROWS: Mapping[str, tuple[str, Callable[[random.Random, list[str]], Iterator[tuple[str, ...]]]]] = {
    "mrpc": ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", _pairs),
    "sst2": ("sentence\tlabel", _moods),
}


# A byte-level BPE vocabulary for the made-up tasks, as a tokenizer.json: all bytes, and each word as a token.
# The merges of a word add one letter after the other to the space before it, so they never conflict with
# those of another word.
END_OF_DOCUMENT = "<|endoftext|>"
_OTHER_WORDS = ("Sentiment", "negative", "positive")
_SPACE = "Ġ"
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


@cache
def sample_vocabulary() -> bytes:
    """Return the tokenizer.json for the made-up words of seed 1, the default of the samples."""
    merges: dict[tuple[str, str], None] = {}
    for word in (*make_words(random.Random(1)), *_OTHER_WORDS):  # noqa: S311  # words, not secrets
        for end in range(len(word)):
            merges[_SPACE + word[:end], word[end]] = None
    # GPT-2's letter for each byte: the character itself if it is visible, else one from U+0100 on.
    visible = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in visible]
    letters = [chr(byte if byte in visible else 256 + others.index(byte)) for byte in range(256)]
    entries = [END_OF_DOCUMENT, *letters, *("".join(pair) for pair in merges)]
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    content = {
        "version": "1.0",
        "added_tokens": [{"id": 0, "content": END_OF_DOCUMENT, "special": True, **plain}],
        "pre_tokenizer": _BYTE_LEVEL,
        "decoder": _BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "vocab": {entry: number for number, entry in enumerate(entries)},
            "merges": [" ".join(pair) for pair in merges],
        },
    }
    return json.dumps(content, ensure_ascii=False).encode()
