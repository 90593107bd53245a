"""Several ranks prepare the same corpus as one; only what is lost is made again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slipway.containers.data.rows.shards import record_path
from slipway.containers.data.sources.sources import InputOrigin
from slipway.containers.recipes.prepare_bert import train
from tests.containers.recipes.ranks import PIPES, place, run_ranks

pytest.importorskip("h5py", reason="the extra 'training' is not installed")

SETTINGS = ("sample_megabytes=1", "shards=4", "duplicates=1")
run = partial(run_ranks, "slipway.containers.recipes.prepare_bert.train")


def rows(data: Path) -> list[tuple[str, Any]]:
    """Every array of every shard, in order."""
    import h5py

    found = []
    for shard in sorted((data / "phase1").glob("*.hdf5")):
        with h5py.File(shard) as file:
            found += [(f"{shard.name}:{key}", file[key][:].tolist()) for key in sorted(file)]
    return found


def test_two_ranks_make_the_rows_that_one_makes(tmp_path: Path) -> None:
    for world, name in ((1, "alone"), (2, "together")):
        assert [each.returncode for each in run(tmp_path / name, world, *SETTINGS)] == [0] * world
    assert rows(tmp_path / "alone") == rows(tmp_path / "together")
    assert rows(tmp_path / "alone")


def test_a_repeated_job_makes_only_what_was_lost(tmp_path: Path) -> None:
    run(tmp_path, 2, *SETTINGS)
    shards = sorted((tmp_path / "phase1").glob("*.hdf5"))
    before = {shard: (shard.stat().st_ino, shard.read_bytes()) for shard in shards}
    shards[2].unlink()
    assert [each.returncode for each in run(tmp_path, 2, *SETTINGS)] == [0, 0]
    for shard, (inode, content) in before.items():
        assert shard.read_bytes() == content
        assert (shard.stat().st_ino == inode) or shard == shards[2]
    assert json.loads((tmp_path / "phase1" / "manifest.json").read_text())


DYING = """
import os, signal, sys
os.cpu_count = lambda: 1  # the shards one after the other, in this process
from slipway.containers.data.rows import work as rows
from slipway.containers.recipes.prepare_bert.train import main
make = rows.make_shard
def make_or_die(work, number, report):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return make(work, number, report)
rows.make_shard = make_or_die
sys.exit(main(sys.argv[1:]))
"""


def test_after_a_node_died_the_next_attempt_makes_only_its_lost_shards(tmp_path: Path) -> None:
    data, alone = tmp_path / "data", tmp_path / "alone"
    words = [part for setting in SETTINGS for part in ("--set", setting)]
    start = [sys.executable, "-c", DYING, *words]
    ranks = [subprocess.Popen(start, env=place(data, rank, 2), **PIPES) for rank in range(2)]
    ranks[1].communicate(timeout=120)
    assert ranks[1].returncode == -signal.SIGKILL
    ranks[0].terminate()  # as the launcher does when a node is lost
    ranks[0].communicate(timeout=120)
    assert ranks[0].returncode != 0
    output = data / "phase1"
    # A shard counts once its record is written: rank 0 may have ended between the two.
    made = [number for number in range(4) if record_path(output, number).exists()]
    kept = {shard: shard.stat().st_ino for shard in (output / f"shard-{n:05}.hdf5" for n in made)}
    assert 1 in made
    assert 3 not in made
    assert [each.returncode for each in run(data, 2, *SETTINGS)] == [0, 0]
    assert {shard: shard.stat().st_ino for shard in kept} == kept
    run(alone, 1, *SETTINGS)
    assert rows(data) == rows(alone)


def test_the_rank_that_merges_waits_for_a_shard_that_another_makes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is left from the last time, and says nothing about the file."""
    run(tmp_path, 2, *SETTINGS)
    shard = sorted((tmp_path / "phase1").glob("*.hdf5"))[3]
    lost = shard.rename(tmp_path / "lost")
    monkeypatch.setattr(time, "sleep", lambda _: lost.rename(shard))
    train.merge_when_all_are_made(tmp_path / "phase1", InputOrigin())
    assert shard.exists()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("phase=3", "phase is '3', and must be a whole number from 1 to 2"),
        ("input=../elsewhere", "input is '../elsewhere', and must be"),
        ("shard=4", "'shard' is not a setting; did you mean shards?"),
        ("input=absent", "absent"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(tmp_path: Path, setting: str, words: str) -> None:
    (ended,) = run(tmp_path, 1, setting, "vocabulary=vocab.txt")
    assert ended.returncode != 0
    assert ended.stderr.startswith("error: ")
    assert words in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_text_of_ones_own_needs_a_vocabulary(tmp_path: Path) -> None:
    """Training one on all of it would keep every node waiting, and it would fit no published model."""
    (ended,) = run(tmp_path, 1, "input=wikicorpus")
    assert ended.returncode != 0
    assert ended.stderr.startswith("error: vocabulary is not set, and only a sample trains its own; set ")
