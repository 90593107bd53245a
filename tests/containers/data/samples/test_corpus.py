"""The demo's corpus and vocabulary are the same each time, and fit each other."""

from __future__ import annotations

from collections import Counter
from io import StringIO
from pathlib import Path

from slipway.containers.data.preparation import PreparationProgress, in_words
from slipway.containers.data.rows import train_vocabulary
from slipway.containers.data.samples.__main__ import main
from slipway.containers.data.sources.sources import local_source
from slipway.containers.data.text.words import words_of
from slipway.containers.data.tokens.engine import SPECIAL, TokenSettings, Vocabulary, read_vocabulary
from slipway.containers.data.tokens.engine_native import NativeEngine


def test_a_seed_always_gives_the_same_corpus(corpus: Path, tmp_path: Path) -> None:
    arguments = ["--megabytes", "0.3", "--output", str(tmp_path / "a")]
    assert main(arguments) == 0
    assert (tmp_path / "a").read_bytes() == corpus.read_bytes()
    assert main([*arguments, "--seed", "2"]) == 0
    assert (tmp_path / "a").read_bytes() != corpus.read_bytes()


def test_the_corpus_has_words_as_frequent_as_real_ones(corpus: Path) -> None:
    text = corpus.read_text()
    counts = Counter(word for word in words_of(text, cased=False) if word.isalpha())
    frequent = [count for _, count in counts.most_common(1000)]
    assert frequent[0] > 5 * frequent[50] > 20 * frequent[900]
    assert text.count("\n\n") > 100


def test_a_trained_vocabulary_spells_its_whole_corpus(corpus: Path, vocabulary: Vocabulary) -> None:
    assert len(vocabulary.entries) == 1500
    engine = NativeEngine(TokenSettings(phase=1, vocabulary=vocabulary, seed=1, duplicates=1))
    engine.add(corpus.read_bytes(), 0)
    counts = engine.counts()
    assert counts.unknown == 0
    assert counts.tokens < 1.6 * len(corpus.read_text().split())


def test_training_twice_gives_the_same_vocabulary(
    corpus: Path, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    output = tmp_path / "vocab.txt"
    arguments = ["--input", str(corpus), "--output", str(output), "--entries", "1500"]
    assert train_vocabulary.main(arguments) == 0
    assert read_vocabulary(output).digest == vocabulary.digest


def test_the_most_frequent_neighbours_are_joined_first(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("abab abab abc\n\nxy")
    found = train_vocabulary.train(local_source(tmp_path / "t"), 13).entries
    assert found == (*SPECIAL, "##a", "##b", "##c", "##y", "a", "x", "ab", "##ab")


def test_progress_tells_rate_and_time_left_in_plain_lines() -> None:
    clock = iter([0.0, 4.0, 12.0, 12.0, 12.0]).__next__
    stream = StringIO()
    progress = PreparationProgress(
        name="prepare_bert", total_bytes=200_000_000, parts=4, stream=stream, now=clock
    )
    progress.made(10_000_000)
    progress.finished(20_000_000, was_made=True)
    assert stream.getvalue() == "prepare_bert: 15% of 200.0 MB, 1/4 parts, 0.8 MB/s, 3 min 24 s left\n"
    assert in_words(59.6) == "1 min 00 s"
    assert in_words(7300) == "2 h 01 min"
