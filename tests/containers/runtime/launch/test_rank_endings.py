"""A rank that is done ends with its own exit code, whatever threads of libraries still live in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.containers.runtime.nodes import ROOT, Cluster


@pytest.mark.parametrize(
    ("word", "code"), [("say done", 0), ("exit 85", 85), ("exit 3", 3), ("refuse", 2), ("explode boom", 1)]
)
def test_a_rank_with_a_live_thread_of_a_library_ends_with_its_own_code(
    cluster: Cluster, live_thread: Path, word: str, code: int
) -> None:
    node = cluster.start({"0": [f"library {live_thread}", word]})
    assert node.end() == code
    assert "terminate called" not in node.text
    assert "SIGABRT" not in node.text


def test_nothing_is_lost_of_what_a_rank_leaves_to_the_end_of_the_interpreter(
    cluster: Cluster, tmp_path: Path
) -> None:
    node = cluster.start({"0": [f"leave_open {tmp_path}"]})
    assert node.end() == 0
    assert {"[0] of C", "[0] of Python"} <= set(node.lines)
    assert (tmp_path / "atexit").read_text() == "done"
    assert (tmp_path / "thread").read_text() == "done"


@pytest.mark.parametrize(
    ("end", "code", "said"), [("None", 0, ""), ("'no data'", 1, "no data\n"), ("-1", 255, "")]
)
def test_sys_exit_means_what_python_says(tmp_path: Path, end: str, code: int, said: str) -> None:
    (tmp_path / "training.py").write_text(f"import sys; sys.exit({end})")
    ran = subprocess.run(
        [sys.executable, "-m", "slipway.containers.runtime.launch.rank", "training"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (code, said)
