"""The loss and the throughput of a training, read from the lines that its first rank prints.

The patterns are of what containers/recipes/bert_pretrain and a project's train.py print;
tests/end_to_end/test_training.py and test_readme_session.py hold them together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
