"""One srun: what it is told, and whose exit code counts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from slipway.jobs.platforms.slurm.node.step import Heard, SrunLines, run_step, srun_words


def test_no_step_waits_for_a_rank_that_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "srun"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    words = srun_words(4, ["--gres=gpu:8"], ["python", "a b"])
    assert {"--kill-on-bad-exit=1", "--gres=gpu:8"} <= set(words)
    assert words[1] == "--nodes=4"
    assert words[-2:] == ["python", "a b"]


@pytest.mark.parametrize(
    ("written", "ends_with", "code"),
    [
        ("3", 137, 3),  # of several codes that of the main node
        ("0", 0, 0),
        (None, 137, 85),  # it was killed before it could say
        (None, 2, 2),  # it never began
        ("garbage", 0, 0),
    ],
)
def test_the_main_nodes_launcher_says_how_a_step_ended(
    tmp_path: Path, written: str | None, ends_with: int, code: int
) -> None:
    exit_file = tmp_path / "exit-code"
    heard: list[str] = []
    write = f"open({str(exit_file)!r}, 'w').write({written!r});" if written else ""
    words = [sys.executable, "-c", f"{write}print('a line');raise SystemExit({ends_with})"]
    end = run_step(words, os.environ, "7", exit_file, heard.append, Heard())
    assert end.code == code
    assert heard == ["a line"]


def test_what_a_lost_node_had_begun_to_say_is_not_lost() -> None:
    heard: list[str] = []
    lines = SrunLines(heard.append)
    for printed in (b"0: " + b"a" * 1024, b"1: b", b"srun: error: n1: task 0: Killed", b"12: 3: c"):
        lines.hear(printed + b"\n")
    lines.end()
    assert heard == ["b", "srun: error: n1: task 0: Killed", "3: c", "a" * 1024]
