"""A vocabulary can be trained from counts by many processes, none of which held all words."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from slipway.containers.data.corpus import work
from slipway.containers.data.corpus.work import WordCounter, most_frequent
from slipway.containers.data.rows.train_vocabulary import count_words, vocabulary_of
from slipway.containers.data.samples.texts import Author, documents
from slipway.containers.data.sources.sources import local_source

TEXTS = list(documents(Author(7), 200_000))


def counted(folder: Path, parts: int, most: int = work.MOST_CHUNKS) -> list[Path]:
    paths = []
    for part in range(parts):
        counter = WordCounter(most)
        for text in TEXTS[part::parts]:
            counter.add(text)
        paths.append(folder / f"words-{part:05}.tsv")
        counter.write(paths[-1], cased=False)
    return paths


@pytest.mark.parametrize("open_files", [2, 100])
def test_counts_of_parts_are_the_counts_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_files: int
) -> None:
    monkeypatch.setattr(work, "OPEN_FILES", open_files)
    whole = tmp_path / "whole.txt"
    whole.write_text("".join(TEXTS))
    joined = most_frequent(counted(tmp_path, 7))
    assert joined == count_words(local_source(whole), cased=False)
    assert (
        vocabulary_of(joined, 500).entries
        == vocabulary_of(count_words(local_source(whole), cased=False), 500).entries
    )
    assert sorted(path.name for path in tmp_path.iterdir() if "joined" in path.name) == []


def test_rare_words_are_forgotten_and_frequent_ones_are_not(tmp_path: Path) -> None:
    exact, bounded = most_frequent(counted(tmp_path, 3)), most_frequent(counted(tmp_path, 3, most=2000))
    assert len(bounded) < len(exact)
    frequent = [(word, count) for word, count in exact.most_common(100) if word.isalpha()]
    for word, count in frequent:  # a mark is counted with the words that it ends, which are often rare
        assert bounded[word] == pytest.approx(count, rel=0.1)


def test_only_the_most_frequent_words_are_kept(tmp_path: Path) -> None:
    paths = counted(tmp_path, 2)
    assert most_frequent(paths, most=50) == Counter(
        dict(sorted(most_frequent(paths).items(), key=lambda entry: entry[::-1])[-50:])
    )
