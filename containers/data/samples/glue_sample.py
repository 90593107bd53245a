"""Made-up tasks in GLUE's layout, for demos and tests: texts of one mood or the other.

Words of two moods decide, in the second sentence of a pair of mrpc and in the one of sst2: as easy
as that, so that a tiny model without any pre-training learns it in an epoch or two.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.data.samples.corpus import ENDS, SYLLABLES

TRAIN_ROWS, DEV_ROWS = 1200, 240
WORDS = 300
SAME_SHARE = 0.6  # of pairs; the real MRPC has two thirds
MEAN_WORDS, SPREAD_WORDS = 24, 6  # a sentence: pairs have 53 tokens in the mean, as the real MRPC
SHORTEST, LONGEST = 5, 45
_MARKERS = 24  # words of each mood


def write_task(folder: Path, task: str, *, seed: int = 1, train_rows: int = TRAIN_ROWS) -> None:
    """Write train.tsv and dev.tsv, the same for a seed."""
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
        raise DataError(f"cannot write {folder}: {error.strerror}") from error


def make_words(source: random.Random) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < WORDS:
        words["".join(source.choices(SYLLABLES, k=2)) + source.choice(ENDS)] = None
    return list(words)


def _pairs(source: random.Random, words: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield pairs; if both say the same, the second is the first in another order."""
    number = 0
    while True:
        same = source.random() < SAME_SHARE
        first = _sentence(source, words, mood=0)
        second = _shuffled(source, first) if same else _sentence(source, words, mood=1)
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


def _shuffled(source: random.Random, sentence: str) -> str:
    words = sentence.removesuffix(".").lower().split()
    return " ".join(source.sample(words, k=len(words))).capitalize() + "."


ROWS: Mapping[str, tuple[str, Callable[[random.Random, list[str]], Iterator[tuple[str, ...]]]]] = {
    "mrpc": ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", _pairs),
    "sst2": ("sentence\tlabel", _moods),
}
