"""Write something to try things with: a corpus of made-up words, a GLUE task of them, a tiny model.

python -m slipway.containers.data.samples.sample --output corpus.txt --megabytes 2 --seed 1
python -m slipway.containers.data.samples.sample --task mrpc --output glue/mrpc      (train.tsv and dev.tsv)
python -m slipway.containers.data.samples.sample --model distilbert --output tiny    (a model directory that fits them)
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
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
    """Zipf's law for the words, one Markov step for their order."""

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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m slipway.containers.data.samples.sample",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--megabytes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--task", help="a folder with train.tsv and dev.tsv: mrpc or sst2")
    kind.add_argument("--model", help="a folder with a tiny model for them: bert or distilbert")
    options = parser.parse_args(arguments)
    try:
        _write(options)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(options.output)
    return 0


def _write(options: argparse.Namespace) -> None:
    """Imported on use: both take names from here."""
    if options.task:
        from slipway.containers.data.samples.glue_sample import write_task

        write_task(options.output, options.task, seed=options.seed)
    elif options.model:
        from slipway.containers.data.samples.model_sample import write_model

        write_model(options.output, options.model, seed=options.seed)
    else:
        write_sample(options.output, options.seed, int(options.megabytes * 1e6))


if __name__ == "__main__":
    sys.exit(main())
