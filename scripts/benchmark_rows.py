"""Measures commands: run alternately, median CPU seconds, and the ratio of the medians."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


RUNS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    what: str
    measured: str
    beside: str
    ratio: str = ""
    goal: str = ""


def show(row: Row) -> None:
    parts = [row.what, row.measured, row.beside, row.ratio, row.goal and f"(goal: {row.goal})"]
    padded = [part.ljust(width) for part, width in zip(parts, (42, 14, 26, 12, 0), strict=True)]
    print("  ".join(padded).rstrip(), flush=True)


def compare(what: str, ours: float, other: str, theirs: float, *, goal: str) -> Row:
    return Row(
        what=what,
        measured=f"{ours:.2f} s CPU",
        beside=f"{other} {theirs:.2f} s",
        ratio=f"ratio {ours / theirs:.2f}",
        goal=goal,
    )


def side_by_side(
    ours: Sequence[str], other: Sequence[str], environment: Mapping[str, str], folder: Path = ROOT
) -> tuple[float, float]:
    """Median CPU seconds of both, A B A B …, after one run of each that is not counted."""
    times: tuple[list[float], list[float]] = ([], [])
    for run in range(RUNS + 1):
        for command, kept in zip((ours, other), times, strict=True):
            seconds = cpu_seconds(command, {**os.environ, **environment}, folder)
            if run:
                kept.append(seconds)
    return statistics.median(times[0]), statistics.median(times[1])


def cpu_seconds(command: Sequence[str], environment: Mapping[str, str], folder: Path = ROOT) -> float:
    """User and system time of the command and of all that it started and waited for."""
    before = os.times()
    subprocess.run(
        command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def cpu_and_memory(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Return the user and system seconds of a command that starts no other, and its peak memory in MiB."""
    quiet = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    started = os.posix_spawnp(command[0], list(command), environment, file_actions=quiet)
    _, status, used = os.wait4(started, 0)
    assert status == 0, f"{' '.join(command)} failed"
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def wall(command: Sequence[str], environment: Mapping[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return time.perf_counter() - start


def yard_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment after `eval "$(slipway yard env)"`."""
    script = 'eval "$(slipway yard env)"; env -0'
    answer = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return dict(entry.split("=", 1) for entry in answer.stdout.split("\0") if "=" in entry)
