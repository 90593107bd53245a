"""The loss and the throughput of a training, read from the lines that its first rank prints.

The patterns are of what containers/recipes/bert_pretrain and a project's train.py print;
tests/end_to_end/test_training.py and test_readme_session.py hold them together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.runtime.observe import telemetry
from slipway.jobs.submit.find import find_run, targets_to_search
from slipway.jobs.submit.logs import LogLine, Wanted, follow_lines
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.given import checked

_STEP = re.compile(
    r"(?:\[0\] )?step (?P<step>[0-9]+)/(?P<steps>[0-9]+)\b.*?\b"
    r"(?<!val )(?<!test )loss[ =:]+(?P<loss>-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?|nan|inf)\b"
    r"(?:.*? (?P<rate>[0-9,]+\.[0-9]) sequences/s)?"
)
_START = re.compile(r"(?:\[0\] )?(no checkpoint in |resuming from step )")
_BAR = 40  # characters of the longest


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    step: int
    steps: int
    loss: float
    sequences_per_second: float | None  # None: the line does not say
    attempt: int  # which one's work was kept


def points(lines: Iterable[str]) -> list[Point]:
    """Return one point a step; after a resumption that of the later attempt, which went on."""
    kept: dict[int, Point] = {}
    for point in _read(lines):
        kept[point.step] = point
    return [kept[step] for step in sorted(kept)]


def _read(lines: Iterable[str]) -> Iterator[Point]:
    attempt, before = 0, 0
    for line in lines:
        if _START.match(line):
            attempt, before = attempt + 1, 0
        if found := _STEP.match(line):
            step = int(found["step"])
            attempt = max(attempt, 1) + (step < before)  # it went back, and did not say so
            before = step
            yield Point(
                step=step,
                steps=int(found["steps"]),
                loss=float(found["loss"]),
                sequences_per_second=float(found["rate"].replace(",", "")) if found["rate"] else None,
                attempt=attempt,
            )


def thinned(all_points: list[Point], most: int) -> list[Point]:
    """Evenly, with the first and the last."""
    if len(all_points) <= most:
        return all_points
    stride = (len(all_points) - 1) / (most - 1)
    return [all_points[round(number * stride)] for number in range(most)]


def bar(loss: float, highest: float) -> str:
    """Draw a bar from zero, so that a third less loss is a third less bar; NaN draws nothing."""
    share = loss / highest if highest > 0 and loss == loss else 0.0
    return "█" * round(_BAR * min(max(share, 0.0), 1.0))


# The charts of a training from the lines that its first rank prints, as TensorBoard reads them. For a machine
# that does not see the job's own files: the tags are those that telemetry.py writes beside a job.
_NUMBER = r"[-+0-9.,e]+|nan|inf"
_SCALAR_STEP = re.compile(r"(?:\[0\] )?step ([0-9]+)/[0-9]+  ")
_MEASURES: Mapping[str, re.Pattern[str]] = {
    "train/loss": re.compile(rf"  loss ({_NUMBER})  "),
    "train/learning_rate": re.compile(rf"  lr ({_NUMBER})  "),
    "train/gradient_norm": re.compile(rf"  \|g\| ({_NUMBER})  "),
    "train/sequences_per_second": re.compile(rf"  ({_NUMBER}) sequences/s"),
    "train/tokens_per_dollar": re.compile(rf"  ({_NUMBER}) tokens/\$"),
}


@dataclass(slots=True)
class ScalarFile:
    """Write the charts of one job into one file, line after line."""

    path: Path
    seen: int = 0  # lines
    _has_begun: bool = False

    def add_new(self, lines: Sequence[LogLine]) -> None:
        """Write what lines measure; of all that a job printed, those that were not yet seen."""
        for line in lines[self.seen :]:
            self._add(line)
        self.seen = max(self.seen, len(lines))

    def _add(self, line: LogLine) -> None:
        step = _SCALAR_STEP.match(line.text)
        if step is None:
            return
        scalars = {
            tag: float(found[1].replace(",", ""))
            for tag, pattern in _MEASURES.items()
            if (found := pattern.search(line.text))
        }
        now = line.time.timestamp()
        with self.path.open("ab") as file:
            if not self._has_begun:
                file.write(telemetry.first_record(now))
                self._has_begun = True
            file.write(telemetry.scalars_record(now, int(step[1]), scalars))


# Waits for a training from Python and returns what it reported, as `slipway report curve` shows it.


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
