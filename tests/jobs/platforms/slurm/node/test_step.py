"""One srun gets the right options and exit code, and its lines reach CloudWatch Logs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.platforms.slurm.node.job_log import LogShipping, batches
from slipway.jobs.platforms.slurm.node.step import Heard, SrunLines, SrunStep, run_step, srun_words


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
        ("3", 137, 3),  # of several exit codes the main node's
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
    step = SrunStep(words=words, environment=os.environ, job="7", exit_file=exit_file)
    end = run_step(step, heard.append, Heard())
    assert end.code == code
    assert heard == ["a line"]


def test_what_a_lost_node_had_begun_to_say_is_not_lost() -> None:
    heard: list[str] = []
    lines = SrunLines(heard.append)
    for printed in (b"0: " + b"a" * 1024, b"1: b", b"srun: error: n1: task 0: Killed", b"12: 3: c"):
        lines.hear(printed + b"\n")
    lines.end()
    assert heard == ["b", "srun: error: n1: task 0: Killed", "3: c", "a" * 1024]


# A job's log reaches CloudWatch whole and in order, and a sink that fails costs the job nothing.


def test_a_step_whose_log_lies_on_a_full_disk_goes_on_to_its_end() -> None:
    """Nobody would read what srun prints, its pipe would fill up, and every rank would wait to print."""
    program = """
import os, sys
from pathlib import Path
from slipway.jobs.platforms.slurm.node.job_log import JobLog
from slipway.jobs.platforms.slurm.node.setting import SlurmNodeFacts
from slipway.jobs.platforms.slurm.node.step import Heard, SrunStep, run_step
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
words = ["sh", "-c", "yes 0: a line that more than fills a pipe | head -n 3000"]
step = SrunStep(words=words, environment=os.environ, job="1", exit_file=Path("/nowhere/exit-code"))
print(run_step(step, JobLog(SlurmNodeFacts(), "stream").say, Heard()).code, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stderr) == (0, "0\n")


class Sink:
    class exceptions:  # noqa: N801  # botocore's own word
        class ResourceAlreadyExistsException(Exception):
            pass

    def __init__(self, *, is_denied: bool = False) -> None:
        self.lines: list[str] = []
        self.is_denied = is_denied

    def create_log_stream(self, **_: Any) -> None:
        raise self.exceptions.ResourceAlreadyExistsException

    def put_log_events(self, **given: Any) -> None:
        if self.is_denied:
            raise PermissionError("AccessDenied")
        self.lines += [event["message"] for event in given["logEvents"]]


def shipped(sink: Sink, lines: list[str]) -> list[str]:
    said: list[str] = []
    shipping = LogShipping(lambda: sink, "group", "stream", said.append, every_seconds=0.01)
    for line in lines:
        shipping.ship(line)
    shipping.close()
    return said


def test_every_line_arrives_in_order() -> None:
    sink, lines = Sink(), [f"line {number}" for number in range(500)]
    assert not shipped(sink, lines)
    assert sink.lines == lines


def test_a_sink_that_is_denied_is_said_once_and_counted() -> None:
    said = shipped(Sink(is_denied=True), ["a", "b", "c"])
    assert [line for line in said if "does not take this log (AccessDenied)" in line] == said[:1]
    assert said[-1] == "[run] warning: 3 lines are in this file and not in CloudWatch Logs"


def test_a_call_holds_no_more_than_cloudwatch_takes() -> None:
    found = batches([(0, "x" * 100_000)] * 25 + [(0, "y")] * 10_001)
    assert all(sum(len(text) + 26 for _, text in batch) <= 1_048_576 for batch in found)
    assert all(len(batch) <= 10_000 for batch in found)
    assert sum(map(len, found)) == 25 + 10_001
