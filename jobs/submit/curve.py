"""Reads loss and throughput of a training from its first rank's log lines, which metrics.py parses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from slipway.containers.runtime.observe import telemetry
from slipway.jobs.submit.find import find_run, targets_to_search
from slipway.jobs.submit.logs import LogLine, Wanted, follow_lines
from slipway.jobs.submit.metrics import HELD_OUT, LOSS, RATE, read
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.given import checked

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    step: int
    steps: int | None  # of the whole training; None: no line says it
    loss: float
    sequences_per_second: float | None  # None: the line does not say it
    attempt: int  # the one whose result is kept
    epoch: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)  # all of the step's, evaluations as eval_…
    has_step: bool = True  # False: no line names its step, so reports are counted instead


def points(lines: Iterable[str]) -> list[Point]:
    """Return one point for each step; of a step that was trained again, the later attempt's."""
    return [
        Point(
            step=each.step,
            steps=each.steps,
            loss=each.metrics[LOSS],
            sequences_per_second=each.metrics.get(RATE),
            attempt=each.attempt,
            epoch=each.epoch,
            metrics=each.metrics,
            has_step=each.has_step,
        )
        for each in read(lines)
        if LOSS in each.metrics
    ]


def thinned(values: list[T], most: int) -> list[T]:
    """Return at most this many of the values, evenly spaced, with the first and the last."""
    if len(values) <= most:
        return values
    stride = (len(values) - 1) / (most - 1)
    return [values[round(number * stride)] for number in range(most)]


# TensorBoard event files, written from a job's log on a machine that cannot read the job's own. The tags are
# those that telemetry.py writes inside the job.


@dataclass(slots=True)
class ScalarFile:
    """Write one job's metrics to one event file, step by step."""

    path: Path
    seen: int = 0  # lines written so far
    _has_begun: bool = False

    def add_new(self, lines: Sequence[LogLine]) -> None:
        """Write the metrics of the lines that are new since the last call; pass all lines each time."""
        for reading in read(line.text for line in lines):
            if reading.line < self.seen:
                continue
            now = lines[reading.line].time.timestamp()
            scalars = {
                f"eval/{name.removeprefix(HELD_OUT)}" if name.startswith(HELD_OUT) else f"train/{name}": value
                for name, value in reading.metrics.items()
            }
            with self.path.open("ab") as file:
                if not self._has_begun:
                    file.write(telemetry.first_record(now))
                    self._has_begun = True
                file.write(telemetry.scalars_record(now, reading.step, scalars))
        self.seen = max(self.seen, len(lines))


# Waits for a training, from Python, and returns its steps as `slipway report curve` shows them.


@checked
def curve(job: str, on: str | None = None) -> list[Point]:
    """Wait until the job ends, and return the steps that it reported with their loss and rate."""
    found = find_run(job, targets_to_search(on, None))
    reported = points(line.text for line in follow_lines(found, Wanted(rank=0), to_end=True))
    if not reported:
        raise SlipwayError(
            f"job '{found.run.name}' ended without having reported a step",
            hint=f"slipway explain {found.run.name}",
        )
    return reported
