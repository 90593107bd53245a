"""One rank or several make a dump a corpus and a vocabulary; only what is lost is made again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("mwparserfromhell", reason="the extra 'training' is not installed")

from slipway.containers.data.tokens.engine import read_vocabulary
from slipway.containers.recipes.prepare_corpus.config import decode_arguments
from slipway.containers.training.settings import InvalidSettings
from tests.containers.data.corpus.dumps import articles, multistream
from tests.containers.recipes.ranks import run_ranks

SETTINGS = ("input=dump", "parts=5", "vocabulary_entries=60")
MODULE = "slipway.containers.recipes.prepare_corpus.train"


def run(data: Path, world: int, *settings: str) -> list[subprocess.CompletedProcess[str]]:
    return run_ranks(MODULE, data, world, *SETTINGS, *settings)


def lay(data: Path, content: bytes) -> None:
    (data / "dump").mkdir(parents=True)
    (data / "dump" / "enwiki-pages-articles-multistream.xml.bz2").write_bytes(content)


def corpus(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((data / "corpus").glob("*.txt"))}


def vocabulary(data: Path) -> tuple[str, ...]:
    return read_vocabulary(data / "corpus.vocab.txt").entries


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("alone")
    lay(data, multistream(articles(40)))
    (ended,) = run(data, 1)
    assert ended.returncode == 0, ended.stderr
    assert "24 documents" in ended.stdout
    assert "60 entries" in ended.stdout
    return data


def test_two_ranks_make_the_corpus_that_one_makes(alone: Path, tmp_path: Path) -> None:
    lay(tmp_path, multistream(articles(40)))
    assert [ended.returncode for ended in run(tmp_path, 2)] == [0, 0]
    assert corpus(tmp_path) == corpus(alone)
    assert vocabulary(tmp_path) == vocabulary(alone)


def test_a_repeated_job_makes_only_what_was_lost(alone: Path) -> None:
    before = corpus(alone)
    inodes = {path.name: path.stat().st_ino for path in (alone / "corpus").glob("*.txt")}
    (alone / "corpus" / "part-00002.txt").unlink()
    (ended,) = run(alone, 1)
    assert ended.returncode == 0, ended.stderr
    assert "made before" in ended.stderr
    assert corpus(alone) == before
    for name in before.keys() - {"part-00002.txt"}:
        assert (alone / "corpus" / name).stat().st_ino == inodes[name]


def test_a_dump_that_was_cut_costs_only_what_is_behind_the_cut(tmp_path: Path) -> None:
    whole = multistream(articles(40))
    lay(tmp_path, whole[: len(whole) - 700])
    (ended,) = run(tmp_path, 1)
    assert ended.returncode == 2
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert "ends in the middle of" in line
    assert corpus(tmp_path).keys() >= {"part-00000.txt", "part-00001.txt"}


def test_a_folder_of_another_corpus_is_left_alone(alone: Path) -> None:
    before = corpus(alone)
    (ended,) = run(alone, 1, "cased=yes")
    assert ended.returncode == 2
    assert "holds a corpus with cased False, but this run has cased True; set another output" in ended.stderr
    assert corpus(alone) == before


def test_settings_are_refused_before_a_machine_is_paid_for() -> None:
    with pytest.raises(InvalidSettings) as refused:
        decode_arguments(["input=corpus", "parts=0", "cased=maybe", "size=large"])
    assert len(refused.value.mistakes) == 4
