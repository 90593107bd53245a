"""Run and print benchmarks: the compared programs take turns, and each comparison is a row."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = 5
# The environment that limits the compared libraries to one core.
ONE_CORE = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    what: str
    measured: str
    beside: str = ""
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


def take_turns(*runs: Callable[[], float], turns: int = RUNS, uncounted: int = 0) -> list[list[float]]:
    """Return the seconds of each run, in turns A B A B …, without the first `uncounted` turns."""
    taken: list[list[float]] = [[] for _ in runs]
    for _ in range(uncounted + turns):
        for run, kept in zip(runs, taken, strict=True):
            kept.append(run())
    return [kept[uncounted:] for kept in taken]


def medians(taken: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(statistics.median(kept) for kept in taken)


def seconds_of(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    began = clock()
    work()
    return clock() - began


def side_by_side(
    ours: Sequence[str], other: Sequence[str], environment: Mapping[str, str], folder: Path = ROOT
) -> tuple[float, ...]:
    """Return the median CPU seconds of both, without the first run of each."""
    whole = {**os.environ, **environment}
    runs = (partial(cpu_seconds, command, whole, folder) for command in (ours, other))
    return medians(take_turns(*runs, uncounted=1))


def cpu_seconds(command: Sequence[str], environment: Mapping[str, str], folder: Path = ROOT) -> float:
    """Return the user and system seconds of the command and of all processes that it waited for."""
    before = os.times()
    _run_quietly(command, environment, folder)
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
    return seconds_of(lambda: _run_quietly(command, environment))


def _run_quietly(command: Sequence[str], environment: Mapping[str, str], folder: Path = ROOT) -> None:
    """Run without a pipe: processes that a command leaves running would keep it open."""
    nowhere = subprocess.DEVNULL
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=nowhere, stderr=nowhere)


def output_of(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def repeat(text: bytes, times: int, path: Path) -> None:
    with path.open("wb") as file:
        for _ in range(times):
            file.write(text)


def yard_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment after `eval "$(slipway yard env)"`."""
    told = output_of(["bash", "-c", 'eval "$(slipway yard env)"; env -0'], environment)
    return dict(entry.split("=", 1) for entry in told.split("\0") if "=" in entry)
