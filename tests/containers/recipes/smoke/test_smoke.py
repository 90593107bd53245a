"""A smoke test says of real ranks that they can train together, or which node cannot."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.containers.recipes.smoke.config import decode_arguments
from slipway.containers.training.settings import InvalidSettings

pytest.importorskip("torch", reason="the extra 'training' is not installed")
from slipway.containers.recipes.smoke.layouts import layouts_of
from slipway.containers.recipes.smoke.session import bus_share, given, sizes, wrong_ranks

SMOKE = "slipway.containers.recipes.smoke.train"
LOSSY = "tests.containers.recipes.smoke.lossy_ranks"
BAD = "tests.containers.recipes.smoke.bad_rank"
ROOT = Path(__file__).resolve().parents[4]


def run(module: str = SMOKE, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run two ranks on this machine, as on a node of any cluster."""
    words = [sys.executable, "-m", "slipway.containers.runtime.launch", "--module", module, "--"]
    return subprocess.run(
        [*words, "--set", "largest_mib=1", "--set", "repeats=2"],
        cwd=ROOT,
        env={**os.environ, "SLIPWAY_JOB": "smoke", "SLIPWAY_PROCESSES_PER_NODE": "2", **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_ranks_that_can_train_together_say_how_fast_for_each_size() -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    assert "2 ranks of 1 nodes meet; all_reduce over gloo" in done.stdout
    sized = re.findall(r"all_reduce +(\S+ \S+) +([0-9.]+) ms +([0-9.]+) GB/s a rank", done.stdout)
    assert [size for size, _, _ in sized] == ["4 KiB", "64 KiB", "1 MiB"]
    told = re.findall(r"layout (\S+) trains as one rank does", done.stdout)
    assert told == ["sharded=2", "pipeline=2", "tensor=2"]
    assert all(float(rate) >= 0 and float(milliseconds) > 0 for _, milliseconds, rate in sized)


def test_a_rank_that_sends_a_wrong_number_is_named_with_its_node_and_not_tried_again() -> None:
    done = run(BAD)
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if "bad numbers from" in line]
    assert re.search(r"bad numbers from node 0 \(\S+\), rank 1: an all_reduce of 1 MiB over gloo", said[0])
    assert "all_reduce     4 KiB" in done.stdout, "the smaller ones were right"


def test_ranks_whose_torch_finds_no_accelerator_do_not_fall_back_to_processors(tmp_path: Path) -> None:
    """Otherwise a node of 13 dollars an hour would train on its processors, and nothing would say so."""
    (tmp_path / "proc").symlink_to("/proc")
    (tmp_path / "dev/accel").mkdir(parents=True)
    (tmp_path / "dev/accel/accel0").touch()
    promised = {"SLIPWAY_ACCELERATOR": "habana", "SLIPWAY_ACCELERATORS": "1", "SLIPWAY_ROOT": str(tmp_path)}
    done = run(**promised)
    assert done.returncode == 2
    assert "was promised habana devices, and torch" in done.stderr
    assert "finds no hpu" in done.stderr


def test_a_layout_that_would_train_wrongly_is_named_and_the_others_are_tried_all_the_same() -> None:
    done = run(LOSSY)
    assert done.returncode == 1
    assert re.findall(r"layout (\S+) trains (wrongly|as one rank does)", done.stdout) == [
        ("sharded=2", "as one rank does"),
        ("pipeline=2", "as one rank does"),
        ("tensor=2", "wrongly"),
    ]
    assert "error: the self-check of tensor=2 in float32 failed: a loss of" in done.stderr


def test_small_clusters_try_every_layout_and_large_ones_those_of_small_and_of_whole_degrees() -> None:
    four = [str(layout) for layout in layouts_of(4, 2)]
    assert len(four) == len(set(four)) == 8  # of ten layouts; two ranks on a node cannot be four tensor ranks
    assert "sharded=2 × tensor=2" in four
    many = list(layouts_of(128, 8))
    assert {layout.tensor for layout in many} == {1, 2, 8}
    assert {layout.pipeline for layout in many} >= {1, 2, 16, 128}
    assert len(many) < 30


def test_numbers_that_came_out_wrong_say_whose_they_were() -> None:
    summed = sum(given(10, rank, 4) for rank in range(4))
    assert wrong_ranks(summed, 4) == []
    summed[6] += 1
    summed[3] = float("nan")
    assert wrong_ranks(summed, 4) == [2, 3]
    assert bus_share(4) == 1.5


def test_sizes_go_up_to_the_largest_that_was_asked_for() -> None:
    assert [count * 4 for count in sizes(64)] == [4096, 65536, 1 << 20, 16 << 20, 64 << 20]
    with pytest.raises(InvalidSettings, match="largest_mib"):
        decode_arguments(["largest_mib=0"])
