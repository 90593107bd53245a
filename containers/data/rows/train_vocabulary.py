"""Train a small WordPiece vocabulary.

python -m slipway.containers.data.rows.train_vocabulary --input TEXT --output FILE

The most frequent pair of neighbouring pieces is joined first, ties in the order of their spelling, so a text
always gives the same vocabulary. Use it for the demo's corpus, and a published vocab.txt for English.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.locations import open_source
from slipway.containers.data.sources.pieces import plan_shards, units_of
from slipway.containers.data.sources.sources import Source
from slipway.containers.data.text.words import chunks_of, word_counts
from slipway.containers.data.tokens.engine import SPECIAL, Vocabulary, write_vocabulary

Pair = tuple[str, str]


class Joiner:
    """Count the pairs of neighbouring pieces in the words, and join the most frequent pair."""

    def __init__(self, counts: Counter[str]) -> None:
        self._words = [
            ([word[0], *("##" + character for character in word[1:])], count)
            for word, count in sorted(counts.items())
        ]
        self._counts: Counter[Pair] = Counter()
        self._where: defaultdict[Pair, set[int]] = defaultdict(set)
        for number, (pieces, count) in enumerate(self._words):
            self._count(number, pieces, count)
        self._heap = [(-count, pair) for pair, count in self._counts.items()]
        heapify(self._heap)

    def letters(self) -> list[str]:
        return sorted({piece for pieces, _ in self._words for piece in pieces})

    def join_most_frequent(self) -> str | None:
        while self._heap:
            count, pair = heappop(self._heap)
            if -count == self._counts[pair] and count:
                return self._join(pair)
        return None

    def _join(self, pair: Pair) -> str:
        joined = pair[0] + pair[1].removeprefix("##")
        changed: set[Pair] = set()
        for number in sorted(self._where[pair]):
            pieces, count = self._words[number]
            changed.update(pairwise(pieces))
            self._count(number, pieces, -count)
            pieces[:] = _replaced(pieces, pair, joined)
            self._count(number, pieces, count)
            changed.update(pairwise(pieces))
        for other in changed:
            heappush(self._heap, (-self._counts[other], other))
        return joined

    def _count(self, number: int, pieces: list[str], count: int) -> None:
        for pair in pairwise(pieces):
            self._counts[pair] += count
            if count > 0:
                self._where[pair].add(number)
            else:
                self._where[pair].discard(number)


def train(source: Source, entries: int, *, cased: bool = False) -> Vocabulary:
    return vocabulary_of(count_words(source, cased=cased), entries)


def vocabulary_of(words: Counter[str], entries: int) -> Vocabulary:
    joiner = Joiner(words)
    found = dict.fromkeys([*SPECIAL, *joiner.letters()])
    if len(found) > entries:
        raise DataError(
            f"--entries {entries} is fewer than the {len(found)} special tokens and letters of the text",
            hint="give more",
        )
    while len(found) < entries:
        joined = joiner.join_most_frequent()
        if joined is None:
            break
        found[joined] = None
    return Vocabulary(entries=tuple(found), name="trained vocabulary")


def count_words(source: Source, *, cased: bool) -> Counter[str]:
    chunks: Counter[bytes] = Counter()
    for unit in units_of(source, plan_shards(source, 1)[0]):
        for text in unit:
            chunks.update(chunks_of(text.data))
    return word_counts(chunks, cased=cased)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m slipway.containers.data.rows.train_vocabulary", description=__doc__
    )
    parser.add_argument("--input", required=True, help="text, as prepare_bert takes it")
    parser.add_argument("--output", type=Path, required=True, help="the vocab.txt to write")
    parser.add_argument("--entries", type=int, default=4000)
    options = parser.parse_args(arguments)
    try:
        write_vocabulary(train(open_source(options.input), options.entries), options.output)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(options.output)
    return 0


def _replaced(pieces: list[str], pair: Pair, joined: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(pieces):
        is_pair = tuple(pieces[at : at + 2]) == pair
        found.append(joined if is_pair else pieces[at])
        at += 2 if is_pair else 1
    return found


if __name__ == "__main__":
    sys.exit(main())
