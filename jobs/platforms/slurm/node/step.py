"""Runs one srun over a job's nodes: reads its output by line, and passes Slurm's warning to the ranks."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from slipway.jobs.platforms.on_nodes import read_exit_code
from slipway.jobs.platforms.slurm.node import programs
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.run import RETRY_EXIT_CODE
from slipway.jobs.words.text import Say

_LOOK_SECONDS = 0.5
_ASK_AGAIN_SECONDS = 5.0
_DRAIN_SECONDS = 10.0
# Of a launcher that reports a user's mistake: another attempt would end the same. Other codes are machines'.
_ITS_OWN_WORDS = (1, 2, 126, 127)
# srun's options for all jobs: one launcher and the whole of each node, and no waiting for a dead one.
_OPTIONS = (
    *("--ntasks-per-node=1", "--kill-on-bad-exit=1", "--export=ALL", "--cpu-bind=none", "--mpi=none"),
    "--label",
)
# One stream for each node: srun carries two, and lines of one would divide long lines of the other.
_AS_ONE_STREAM = ("/bin/sh", "-c", 'exec "$@" 2>&1', "sh")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnd:
    code: int
    was_warned: bool  # of the end of the job's time
    was_ended: bool  # by scancel, or because Slurm takes the nodes back: Slurm decides what follows


@dataclass(slots=True)
class Heard:
    """Records the signals that came; their handlers do nothing else."""

    warned: bool = False
    ended: bool = False

    def listen(self) -> None:
        signal.signal(signal.SIGUSR1, self._hear)
        signal.signal(signal.SIGTERM, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.warned = self.warned or number == signal.SIGUSR1
        self.ended = self.ended or number == signal.SIGTERM


def srun_words(nodes: int, options: Sequence[str], command: Sequence[str]) -> list[str]:
    """Return the words of a step; `options` are for the nodes' hardware and the ranks' container."""
    srun = programs.find_program("srun")
    return [srun, f"--nodes={nodes}", *_OPTIONS, *options, *_AS_ONE_STREAM, *command]


@dataclass(frozen=True, slots=True, kw_only=True)
class SrunStep:
    """Hold what one srun is told, and where the main node's launcher writes its exit code."""

    words: Sequence[str]
    environment: Mapping[str, str]
    job: str
    exit_file: Path


def run_step(step: SrunStep, hear_line: Callable[[str], None], heard: Heard) -> StepEnd:
    """Run srun to its end; `hear_line` gets every line that it prints, in the form of the job's log."""
    step.exit_file.unlink(missing_ok=True)
    with subprocess.Popen(
        step.words,
        env=dict(step.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        carrying = threading.Thread(target=_carry, args=(process.stdout, hear_line), daemon=True)
        carrying.start()
        _watch(process, step.job, heard, hear_line)
        carrying.join(_DRAIN_SECONDS)
    code = read_exit_code(step.exit_file)  # of the main node's launcher: srun's is the largest of all
    if code is None:
        is_its_own = process.returncode in (0, *_ITS_OWN_WORDS)
        code = process.returncode if is_its_own else RETRY_EXIT_CODE
    return StepEnd(code=code, was_warned=heard.warned, was_ended=heard.ended)


def _carry(source: IO[bytes], hear_line: Callable[[str], None]) -> None:
    lines = SrunLines(hear_line)
    for line in source:
        lines.hear(line)
    lines.end()


def _watch(process: subprocess.Popen[bytes], job: str, heard: Heard, say: Say) -> None:
    """Wait for the end. On Slurm's warning, ask all ranks to save; ask again if there was no answer."""
    asked_at: float | None = None
    has_told = False
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_SECONDS)
            return
        is_due = asked_at is None or time.monotonic() > asked_at + _ASK_AGAIN_SECONDS
        if heard.warned and not has_told and is_due:
            asked_at = time.monotonic()
            # SIGTERM to the launchers, which give their ranks time to save; srun itself would kill them.
            say("[run] the job's time is nearly over: its ranks save and end")
            try:
                programs.ask(["scancel", "--signal=TERM", job])
                has_told = True
            except SlipwayError as error:
                say(f"[run] error: {error.message}; asking again")


# Joins the lines of a step's nodes: srun splits long ones, and mixes those of several nodes. With --label
# every piece names its task, and only a piece of the full size is not the end of its line.
_FULL_PIECE = 1024  # bytes; slurmstepd's, in every release from 22.05 to 25.11
_LABELLED = re.compile(rb" *([0-9]+): (.*)", re.DOTALL)


class SrunLines:
    def __init__(self, hear_line: Callable[[str], None]) -> None:
        self._hear_line = hear_line
        self._begun: defaultdict[bytes, bytearray] = defaultdict(bytearray)

    def hear(self, printed: bytes) -> None:
        """Take one line that srun printed; a line without a label is srun's own."""
        piece = printed.removesuffix(b"\n")
        labelled = _LABELLED.fullmatch(piece)
        if labelled is None:
            self._say(piece)
            return
        task, text = labelled.groups()
        self._begun[task] += text
        if len(text) != _FULL_PIECE:
            self._say(bytes(self._begun.pop(task)))

    def end(self) -> None:
        """Print the unfinished line of each node that was lost."""
        while self._begun:
            self._say(bytes(self._begun.popitem()[1]))

    def _say(self, line: bytes) -> None:
        self._hear_line(line.decode(errors="replace"))
