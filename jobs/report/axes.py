"""Scales the axes of charts: chooses their ends, their tick values and the places of labels.

Vega rounds tick values to the distance between them, and starts an axis below its least value to make room
for marks; so every axis is given both explicitly. Another kind of axis is one function that returns an Axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MARGIN = 1.04  # times the largest value, so that its mark is drawn whole
_LOG_MARGIN = 0.06  # of the decades, added at both ends
_FEW, _SOME = 0.8, 3.2  # decades
_CHARACTER, _LINE = 5.9, 13.0  # pixels of a label in an 11 px font
_MARK = 6.0  # pixels around the middle of a point


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    field: str
    title: str
    least: float
    most: float
    is_log: bool = False
    values: tuple[float, ...] = ()  # ticks; (): round numbers between the ends
    words: str = ",~f"

    def encoded(self, **more: Any) -> dict[str, Any]:
        """Return this axis as Vega-Lite describes it."""
        scale = {"type": "log" if self.is_log else "linear", "domain": [self.least, self.most], "nice": False}
        axis: dict[str, Any] = {
            "title": self.title,
            "format": self.words,
            "grid": not self.is_log,
            "tickCount": 6,
        }
        if self.values:
            axis["values"] = list(self.values)
        return {"field": self.field, "type": "quantitative", "scale": scale, "axis": {**axis, **more}}

    def share(self, value: float) -> float:
        """Return the position of a value between the ends of the axis, from 0 to 1."""
        if self.is_log:
            return math.log(value / self.least) / math.log(self.most / self.least)
        return (value - self.least) / (self.most - self.least)


@dataclass(frozen=True, slots=True)
class Label:
    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedLabel:
    label: Label
    align: str
    dx: float
    dy: float


def counts(field: str, title: str, values: Sequence[float]) -> Axis:
    """Return an axis that starts at zero and has just the given whole numbers as ticks, if they have room."""
    return Axis(
        field=field, title=title, least=0, most=max(values) * _MARGIN, values=tuple(values), words=",d"
    )


def amounts(field: str, title: str, values: Iterable[float]) -> Axis:
    """Return an axis from zero to just above the largest value."""
    return Axis(field=field, title=title, least=0, most=max(values) * _MARGIN)


def around(field: str, title: str, values: Iterable[float]) -> Axis:
    """Return an axis around the values; start it at zero where that costs little of its length."""
    known = list(values)
    low, high = min(known), max(known)
    if 0 <= low <= high / 2:
        return amounts(field, title, [high or 1.0])
    margin = (high - low or abs(high) or 1.0) * (_MARGIN - 1)
    return Axis(field=field, title=title, least=low - margin, most=high + margin, words=",~g")


def magnitudes(field: str, title: str, values: Iterable[float]) -> Axis:
    """Return a logarithmic axis around the values, with as many round ticks as have room."""
    known = list(values)
    low, high = math.log10(min(known)), math.log10(max(known))
    margin = max(_LOG_MARGIN * (high - low), 0.05)
    least, most = 10 ** (low - margin), 10 ** (high + margin)
    decades = math.log10(most / least)
    steps = (1, 1.5, 2, 3, 5, 7) if decades < _FEW else (1, 2, 5) if decades < _SOME else (1,)
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    ticks = [float(f"{step}e{power}") for power in powers for step in steps]
    named = tuple(tick for tick in ticks if least <= tick <= most)
    return Axis(field=field, title=title, least=least, most=most, is_log=True, values=named, words=",~r")


def place_labels(
    labels: Sequence[Label],
    marks: Sequence[tuple[float, float]],
    axes: tuple[Axis, Axis],
    size: tuple[int, int],
) -> list[PlacedLabel]:
    """Place each label where no other label and no mark is; leave out labels that find no room.

    `marks` are the points that must stay readable, in the axes' values, and `size` is in pixels.
    """
    taken = [_box(x - _MARK, y - _MARK, 2 * _MARK, 2 * _MARK) for x, y in _pixels(marks, axes, size)]
    placed = []
    for label in labels:
        ((x, y),) = _pixels([(label.x, label.y)], axes, size)
        width = len(label.text) * _CHARACTER
        for align, dx, dy in _CHOICES:
            left = {"left": dx, "right": dx - width, "center": dx - width / 2}[align]
            box = _box(x + left, y + dy - _LINE / 2, width, _LINE)
            if (
                box[0] >= 0
                and box[2] <= size[0]
                and box[1] >= 0
                and not any(_meet(box, each) for each in taken)
            ):
                taken.append(box)
                placed.append(PlacedLabel(label=label, align=align, dx=dx, dy=dy))
                break
    return placed


# Places around the point, tried in this order: beside it, then above and below, near before far.
_CHOICES = (
    ("left", 10, 0),
    ("right", -10, 0),
    ("left", 6, -13),
    ("right", -6, -13),
    ("left", 6, 13),
    ("right", -6, 13),
    ("center", 0, -16),
    ("center", 0, 16),
    ("left", 6, -28),
    ("right", -6, -28),
    ("left", 6, 28),
    ("right", -6, 28),
)

_Box = tuple[float, float, float, float]


def _pixels(
    points: Iterable[tuple[float, float]], axes: tuple[Axis, Axis], size: tuple[int, int]
) -> list[tuple[float, float]]:
    across, up = axes
    return [(across.share(x) * size[0], (1 - up.share(y)) * size[1]) for x, y in points]


def _box(left: float, top: float, width: float, height: float) -> _Box:
    return left, top, left + width, top + height


def _meet(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def label_layers(
    placed: Iterable[PlacedLabel], axes: tuple[Axis, Axis], mark: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return one Vega-Lite layer for each label: side and distance of a text are settings of its mark."""
    across, up = axes
    return [
        {
            "data": {
                "values": [{across.field: each.label.x, up.field: each.label.y, "label": each.label.text}]
            },
            "mark": {**mark, "align": each.align, "baseline": "middle", "dx": each.dx, "dy": each.dy},
            "encoding": {"x": across.encoded(), "y": up.encoded(), "text": {"field": "label"}},
        }
        for each in placed
    ]
