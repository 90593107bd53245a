"""Draws pictures that a notebook shows as a cell's value. Another is a function that returns a Picture."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway.jobs.estimate.estimates import Estimate
from slipway.jobs.report.charts import VEGA_LITE, drawer
from slipway.jobs.submit.curve import Point
from slipway.jobs.words.errors import SlipwayError

_SIZE = {"width": 640, "height": 320}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Holds a PNG; Jupyter shows it when it is the last value of a cell."""

    described: str
    png: bytes = field(repr=False)

    def _repr_png_(self) -> bytes:
        return self.png


def loss_picture(curve: Sequence[Point]) -> Picture:
    """Draw the loss of each step that a training reported."""
    if not curve:
        raise SlipwayError("there is no step to draw", hint="wait for the job: slipway.curve(job) does")
    values = [{"step": point.step, "loss": point.loss} for point in curve]
    described = f"The loss goes from {curve[0].loss:.3f} to {curve[-1].loss:.3f} in {curve[-1].step} steps."
    across = {"field": "step", "type": "quantitative", "title": "step"}
    up = {"field": "loss", "type": "quantitative", "title": "loss"}
    mark = {"type": "line", "point": True, "color": "#1f6feb"}
    return _drawn(described, [{"mark": mark, "encoding": {"x": across, "y": up}}], values)


def cost_picture(estimates: Mapping[str, Iterable[Estimate]]) -> Picture:
    """Draw hours and dollars of estimates by the name of their hardware; label each point with its nodes."""
    values = [
        {"on": name, "nodes": f"{row.nodes}", "hours": row.hours, "usd": row.usd}
        for name, rows in estimates.items()
        for row in rows
        if row.hours is not None and row.usd is not None
    ]
    if not values:
        raise SlipwayError("no estimate says hours and dollars", hint="slipway estimate RECIPE says why")
    described = f"{len(values)} sizes on {len(estimates)} kinds of hardware, by hours and dollars."
    across = {
        "field": "hours",
        "type": "quantitative",
        "scale": {"type": "log"},
        "title": "hours (beside points: nodes)",
    }
    up = {"field": "usd", "type": "quantitative", "scale": {"zero": False}, "title": "USD"}
    place = {"x": across, "y": up, "color": {"field": "on", "type": "nominal", "title": None}}
    text = {"type": "text", "dy": -12}
    layers = [
        {"mark": {"type": "line", "point": True}, "encoding": place},
        {"mark": text, "encoding": {**place, "text": {"field": "nodes"}}},
    ]
    return _drawn(described, layers, values)


def _drawn(
    described: str, layers: Sequence[Mapping[str, Any]], values: Sequence[Mapping[str, object]]
) -> Picture:
    spec = {"data": {"values": values}, "layer": layers, "background": "white", **_SIZE}
    png = drawer().vegalite_to_png(json.dumps(spec), vl_version=VEGA_LITE)
    return Picture(described=described, png=png)
