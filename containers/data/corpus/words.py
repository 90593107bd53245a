"""How often each word stands in a corpus: counted part by part, joined line by line, in bounded memory.

What is rarest is forgotten when too many different words were met; a vocabulary is made of the frequent ones.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from heapq import merge, nlargest
from itertools import groupby
from pathlib import Path

from slipway.containers.data.text.words import LONGEST_WORD_CHARACTERS, chunks_of, words_of

MOST_CHUNKS = 1 << 20  # different ones in memory: about 100 MB
MOST_WORDS = 1 << 20  # that a vocabulary is trained from
OPEN_FILES = 200


class WordCounter:
    def __init__(self, most: int = MOST_CHUNKS) -> None:
        self._most = most
        self._chunks: Counter[bytes] = Counter()

    def add(self, text: str) -> None:
        self._chunks.update(chunks_of(text.encode()))
        rarest = 1
        while len(self._chunks) > self._most:
            self._chunks = Counter({chunk: count for chunk, count in self._chunks.items() if count > rarest})
            rarest *= 2

    def write(self, path: Path, *, cased: bool) -> None:
        """Write `word<TAB>count` in the order of the words, so that files can be joined line by line."""
        counts: Counter[str] = Counter()
        for chunk, count in self._chunks.items():
            for word in words_of(chunk.decode("utf-8"), cased=cased):
                if len(word) <= LONGEST_WORD_CHARACTERS:
                    counts[word] += count
        _write(path, sorted(counts.items()))


def most_frequent(paths: Iterable[Path], most: int = MOST_WORDS) -> Counter[str]:
    """Join sorted counts, some files at a time, and return the most frequent words."""
    waiting = list(paths)
    groups = [waiting[at : at + OPEN_FILES] for at in range(0, len(waiting), OPEN_FILES)]
    joined = [group[0].with_name(f"joined-{number}") for number, group in enumerate(groups)]
    try:
        for path, group in zip(joined, groups, strict=True):
            with ExitStack() as stack:
                _write(path, _joined(stack, group))
        with ExitStack() as stack:
            return Counter(
                dict(nlargest(most, _joined(stack, joined), key=lambda entry: (entry[1], entry[0])))
            )
    finally:
        for path in joined:
            path.unlink(missing_ok=True)


def _joined(stack: ExitStack, paths: Iterable[Path]) -> Iterator[tuple[str, int]]:
    files = [stack.enter_context(path.open(encoding="utf-8", newline="\n")) for path in paths]
    for word, entries in groupby(merge(*map(_entries, files)), key=lambda entry: entry[0]):
        yield word, sum(count for _, count in entries)


def _entries(lines: Iterable[str]) -> Iterator[tuple[str, int]]:
    for line in lines:
        word, _, count = line.rpartition("\t")
        yield word, int(count)


def _write(path: Path, entries: Iterable[tuple[str, int]]) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with unfinished.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word}\t{count}\n" for word, count in entries)
    unfinished.replace(path)
