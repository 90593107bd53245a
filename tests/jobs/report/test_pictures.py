"""A notebook shows a picture of a loss and of costs; with nothing to draw, one line says what to do."""

from __future__ import annotations

import pytest

import slipway
from slipway.jobs.report.pictures import cost_picture, loss_picture
from slipway.jobs.submit.curve import Point
from slipway.jobs.words.errors import SlipwayError

pytest.importorskip("vl_convert", reason="the extra 'report' is not installed")
PNG = b"\x89PNG"


def point(step: int, loss: float) -> Point:
    return Point(step=step, steps=2, loss=loss, sequences_per_second=1.0, attempt=1)


def test_a_loss_is_drawn_and_described() -> None:
    drawn = loss_picture([point(1, 2.5), point(2, 1.25)])
    assert drawn._repr_png_().startswith(PNG)
    assert drawn.described == "The loss goes from 2.500 to 1.250 in 2 steps."


def test_sizes_are_drawn_by_hours_and_dollars() -> None:
    rows = slipway.estimate(
        "bert_pretrain", on="dl1.24xlarge", nodes=(1, 8), settings={"size": "1.5b", "zero": "1"}
    )
    drawn = cost_picture({"dl1.24xlarge": rows})
    assert drawn._repr_png_().startswith(PNG)
    assert drawn.described == "2 sizes on 1 kinds of hardware, by hours and dollars."


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(SlipwayError, match="no step to draw"):
        loss_picture([])
    with pytest.raises(SlipwayError, match="no estimate says"):
        cost_picture({})
