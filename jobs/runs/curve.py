"""The loss and the throughput of a training, read from the lines that its first rank prints.

The patterns are of what containers/recipes/bert_pretrain prints; tests/end_to_end/test_training.py holds them
together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_STEP = re.compile(
    r"(?:\[0\] )?step (?P<step>[0-9]+)/(?P<steps>[0-9]+)  loss (?P<loss>[-0-9.]+|nan|inf)  .*?"
    r"(?P<rate>[0-9,]+\.[0-9]) sequences/s"
)
_START = re.compile(r"(?:\[0\] )?(no checkpoint in |resuming from step )")
_BAR = 40  # characters of the longest


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    step: int
    steps: int
    loss: float
    sequences_per_second: float
    attempt: int  # which one's work was kept


def points(lines: Iterable[str]) -> list[Point]:
    """Return one point a step; after a resumption that of the later attempt, which went on."""
    kept: dict[int, Point] = {}
    for point in _read(lines):
        kept[point.step] = point
    return [kept[step] for step in sorted(kept)]


def _read(lines: Iterable[str]) -> Iterator[Point]:
    attempt = 0
    for line in lines:
        attempt += bool(_START.match(line))
        if found := _STEP.match(line):
            yield Point(
                step=int(found["step"]),
                steps=int(found["steps"]),
                loss=float(found["loss"]),
                sequences_per_second=float(found["rate"].replace(",", "")),
                attempt=max(attempt, 1),
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
