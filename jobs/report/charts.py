"""Builds charts as Vega-Lite, which vl-convert draws as SVG: no script, no font and no address in the page.

vl-convert is one wheel without dependencies. Text stays text, marks tell their values to a screen reader, and
a page has kilobytes, where libraries that draw in the browser bring megabytes of script. Another chart is one
function that returns a Chart. Colours are class names of page.css, so one drawing serves light, dark and
paper; a series has a shape or a dash besides its colour.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from types import ModuleType
from typing import Any

from slipway.jobs.report.axes import (
    Axis,
    Label,
    amounts,
    around,
    counts,
    label_layers,
    magnitudes,
    place_labels,
)
from slipway.jobs.words.errors import SlipwayError

VEGA_LITE = "5.20"
RATE = "sequences a second"
# Widths and heights in pixels, by class of page.css.
WIDTHS: Mapping[str, tuple[int, int]] = {"wide": (720, 380), "phone": (350, 330)}
_NARROW = 500

_INK, _FAINT, _GRID = "var(--ink)", "var(--faint)", "var(--grid)"
_FIRST, _SECOND = "var(--first)", "var(--second)"
_DASHES = (5, 4)
_AXES = {
    "labelColor": _FAINT,
    "titleColor": _FAINT,
    "gridColor": _GRID,
    "domainColor": _GRID,
    "tickColor": _GRID,
    "labelFontSize": 12,
    "titleFontSize": 12,
    "titleFontWeight": "normal",
    "labelOverlap": "greedy",
    "labelSeparation": 4,
    "titlePadding": 10,
}
_LEGEND = {
    "labelColor": _INK,
    "labelFontSize": 12,
    "symbolStrokeWidth": 2,
    "symbolOpacity": 1,
    "orient": "top",
    "title": None,
    "labelLimit": 320,
    "columnPadding": 14,
}
_LABEL = {"type": "text", "fontSize": 11, "color": _INK}
_AROUND = (78, 74)  # pixels that axes, titles and the legend take beside and above the marks

Point = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    colour: str
    shape: str = "circle"
    dash: tuple[int, int] = (1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    title: str
    description: str  # for readers who do not see the chart
    layers: Sequence[Mapping[str, Any]]
    series: Mapping[str, Series]
    axes: tuple[Axis, Axis]  # horizontal and vertical
    labels: Sequence[Label] = ()
    marked: Sequence[tuple[float, float]] = ()  # points that no label may cover


class CannotDraw(SlipwayError):
    """The drawing library is not installed, as on a laptop that only submits."""


def scaling(title: str, predicted: Sequence[Point], measured: Sequence[Point], *, unit: str = RATE) -> Chart:
    """Draw rate against nodes. Predicted points also have an ideal, and low and high if a band is known."""
    x = counts("nodes", "nodes", sorted({_number(each["nodes"]) for each in (*predicted, *measured)}))
    highest = [
        _number(each.get(name, 0)) for each in (*predicted, *measured) for name in ("rate", "ideal", "high")
    ]
    y = amounts("rate", unit, highest)
    axes = (x, y)
    lines = [_named(point, "predicted") for point in predicted]
    ideal = [{"nodes": point["nodes"], "rate": point["ideal"], "series": "ideal"} for point in predicted]
    shade = {"type": "area", "opacity": 0.18, "color": _FIRST}
    low = replace(y, field="low")
    layers = [
        _layer([line for line in lines if "low" in line], shade, (x, low), y2={"field": "high"}),
        _series(ideal, {"type": "line"}, axes),
        _series(lines, {"type": "line"}, axes),
        _series(lines, _dot(36), axes),
        _series([_named(point, "measured") for point in measured], _dot(110), axes),
    ]
    series = {
        "predicted": Series(colour=_FIRST),
        "ideal": Series(colour=_FAINT, shape="stroke", dash=_DASHES),
    }
    if measured:
        series["measured"] = Series(colour=_SECOND, shape="diamond")
    last = predicted[-1]
    share = _number(last["rate"]) / _number(last["ideal"])
    described = (
        f"From {predicted[0]['nodes']} to {last['nodes']} nodes the predicted rate reaches {share:.0%} of "
        f"the ideal. {len(measured) or 'No'} measured points are shown."
    )
    return Chart(
        title=title,
        description=described,
        layers=[layer for layer in layers if layer],
        series=series,
        axes=axes,
    )


_GROUPS: Mapping[str, Series] = {
    "front": Series(colour=_SECOND, shape="diamond"),
    "open": Series(colour=_SECOND, shape="triangle-up"),
    "chosen": Series(colour=_FIRST, shape="square"),
    "other": Series(colour=_FAINT),
}


def cost_against_time(title: str, points: Sequence[Point], *, units: tuple[str, str], chosen: str) -> Chart:
    """Draw cost against time; each point has time, cost, group (front, open, chosen or other) and label."""
    shown = {
        "front": "beaten by none",
        "open": "not told apart",
        "chosen": chosen,
        "other": "other types and sizes",
    }
    by_group = {
        group: sorted(
            (_named(point, shown[group]) for point in points if point["group"] == group),
            key=lambda point: _number(point["time"]),
        )
        for group in shown
    }
    axes = (
        magnitudes("time", units[0], [_number(point["time"]) for point in points]),
        magnitudes("cost", units[1], [_number(point["cost"]) for point in points]),
    )
    layers = [
        _series(by_group["front"], {"type": "line", "strokeWidth": 1.5}, axes),
        _series(by_group["other"], _dot(26, opacity=0.45), axes),
        _series(by_group["chosen"], _dot(52), axes),
        _series(by_group["open"], _dot(52), axes),
        _series(by_group["front"], _dot(84), axes),
    ]
    return Chart(
        title=title,
        description=f"{len(points)} configurations by {units[0]} and {units[1]}; {len(by_group['front'])} of "
        f"them are beaten by none, and {len(by_group['open'])} are not told apart.",
        layers=[layer for layer in layers if layer],
        series={shown[group]: _GROUPS[group] for group in shown if by_group[group]},
        axes=axes,
        labels=[Label(*_place(point), str(point["label"])) for point in points if point["label"]],
        marked=[_place(each) for each in points if each["group"] != "other"],
    )


def _place(point: Point) -> tuple[float, float]:
    return _number(point["time"]), _number(point["cost"])


def over_steps(title: str, curve: Sequence[Point], predicted: float) -> Chart:
    """Draw the rate of each step against the predicted one."""
    rates = sorted(_number(point["rate"]) for point in curve)
    last = max(_number(point["step"]) for point in curve)
    axes = (amounts("step", "step", [last]), amounts("rate", RATE, [rates[-1], predicted]))
    ends = [{"step": curve[place]["step"], "rate": predicted, "series": "estimate"} for place in (0, -1)]
    run = [_named(point, "this run") for point in curve]
    return Chart(
        title=title,
        description=f"The run's rate lies between {rates[0]:,.1f} and {rates[-1]:,.1f} {RATE}; the estimate "
        f"is {predicted:,.1f}.",
        layers=[
            _series(ends, {"type": "line"}, axes),
            _series(run, {"type": "line"}, axes),
            _series(run, _dot(24), axes),
        ],
        series={
            "this run": Series(colour=_SECOND, shape="diamond"),
            "estimate": Series(colour=_FAINT, shape="stroke", dash=_DASHES),
        },
        axes=axes,
    )


_LINES: Sequence[Series] = (
    Series(colour=_FIRST),
    Series(colour=_SECOND, shape="diamond", dash=_DASHES),
)


def curves(title: str, unit: str, series: Mapping[str, Sequence[tuple[int, float]]]) -> Chart:
    """Draw values by step, as one line for each of at most two series; neither may be empty."""
    steps = [step for values in series.values() for step, _ in values]
    every = [value for values in series.values() for _, value in values]
    axes = (amounts("step", "step", [max(*steps, 1)]), around("value", unit, every))
    layers = []
    for name, values in series.items():
        marks = [_named({"step": step, "value": value}, name) for step, value in values]
        layers += [_series(marks, {"type": "line"}, axes), _series(marks, _dot(20), axes)]
    ends = [f"{name} goes from {values[0][1]:.4g} to {values[-1][1]:.4g}" for name, values in series.items()]
    return Chart(
        title=title,
        description=f"{'; '.join(ends)}, by step {max(steps):,}.",
        layers=layers,
        series=dict(zip(series, _LINES, strict=False)),
        axes=axes,
    )


def drawn(chart: Chart, number: int) -> str:
    """Return the SVGs for the wide page, print and a phone; page.css shows the one that fits."""
    return "\n".join(
        f'<div class="{kind}">{_svg(chart, size, f"chart-{number}-{kind}")}</div>'
        for kind, size in WIDTHS.items()
    )


def drawer() -> ModuleType:
    """Import and return the drawing library, which most commands do not need."""
    try:
        import vl_convert
    except ImportError:
        raise CannotDraw(
            "charts and pictures are drawn by vl-convert, which is not installed",
            hint="pip install 'slipway[report]'",
        ) from None
    return vl_convert


def _svg(chart: Chart, size: tuple[int, int], name: str) -> str:
    columns = 1 if size[0] < _NARROW else len(chart.series)
    room = (size[0] - _AROUND[0], size[1] - _AROUND[1])
    labels = label_layers(place_labels(chart.labels, chart.marked, chart.axes, room), chart.axes, _LABEL)
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": size[0],
        "height": size[1],
        "autosize": {"type": "fit", "contains": "padding"},
        "padding": 4,
        "config": {
            "background": None,
            "font": "system-ui, sans-serif",
            "view": {"stroke": None},
            "axis": _AXES,
            "legend": {**_LEGEND, "columns": columns},
        },
        "layer": [*(_with_channels(layer, chart.series) for layer in chart.layers), *labels],
    }
    text = drawer().vegalite_to_svg(json.dumps(spec), vl_version=VEGA_LITE)
    named = f'<title id="{name}-title">{escape(chart.title)}</title>'
    named += f'<desc id="{name}-desc">{escape(chart.description)}</desc>'
    opening = f'<svg viewBox="0 0 {size[0]} {size[1]}" role="img" aria-labelledby="{name}-title {name}-desc">'
    return re.sub(r"^<svg[^>]*>", lambda _: opening + named, text, count=1)


# The channels by which a mark tells series apart; Vega-Lite warns of a channel that the mark cannot have.
_CHANNELS: Mapping[str, Mapping[str, str]] = {
    "line": {"color": "colour", "strokeDash": "dash"},
    "point": {"color": "colour", "shape": "shape"},
}


def _with_channels(layer: Mapping[str, Any], series: Mapping[str, Series]) -> Mapping[str, Any]:
    if not layer["has_series"]:
        return {key: value for key, value in layer.items() if key != "has_series"}
    channels = {
        channel: {
            "field": "series",
            "type": "nominal",
            "scale": {"domain": list(series), "range": [getattr(one, fact) for one in series.values()]},
        }
        for channel, fact in _CHANNELS[layer["mark"]["type"]].items()
    }
    encoding = {**layer["encoding"], **channels}
    return {"data": layer["data"], "mark": layer["mark"], "encoding": encoding}


def _series(values: Sequence[Point], mark: Mapping[str, Any], axes: tuple[Axis, Axis]) -> dict[str, Any]:
    """Return a layer whose colour and shape are those of its series; without values, an empty layer."""
    layer = _layer(values, mark, axes)
    return {**layer, "has_series": True} if layer else {}


def _layer(
    values: Sequence[Point], mark: Mapping[str, Any], axes: tuple[Axis, Axis], **more: Any
) -> dict[str, Any]:
    if not values:
        return {}
    encoding = {"x": axes[0].encoded(), "y": axes[1].encoded(), **more}
    return {"data": {"values": list(values)}, "mark": dict(mark), "encoding": encoding, "has_series": False}


def _dot(size: int, *, opacity: float = 1.0) -> dict[str, Any]:
    return {"type": "point", "size": size, "filled": True, "opacity": opacity}


def _named(point: Point, series: str) -> dict[str, object]:
    return {**point, "series": series}


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)
