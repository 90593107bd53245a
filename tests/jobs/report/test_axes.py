"""Axes show true values and begin at zero, labels stay readable, and a notebook shows pictures."""

from __future__ import annotations

import re

import pytest

import slipway
from slipway import SlipwayError
from slipway.jobs.report.axes import Label, amounts, counts, magnitudes, place_labels
from slipway.jobs.report.charts import cost_against_time, drawn, scaling
from slipway.jobs.report.pictures import cost_picture, loss_picture
from slipway.jobs.submit.curve import Point


def words_of(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_nodes_are_named_as_they_are() -> None:
    line = [{"nodes": nodes, "rate": nodes * 900, "ideal": nodes * 1000} for nodes in (4, 8, 16, 32, 64)]
    wide = drawn(scaling("t", line, []), 0).partition('class="phone"')[0]
    assert {"8", "16", "32", "64"} <= set(words_of(wide))
    assert not {"10", "20", "30", "60"} & set(words_of(wide))


@pytest.mark.parametrize("rates", [[0.2, 0.9], [5.0, 31.0], [1200.0, 9977.5]])
def test_an_axis_of_amounts_begins_at_nothing(rates: list[float]) -> None:
    line = [{"nodes": place + 1, "rate": rate, "ideal": rate} for place, rate in enumerate(rates)]
    said = words_of(drawn(scaling("t", line, []), 0))
    assert "0" in said or "0.0" in said
    assert not [word for word in said if word.startswith(("-", "−"))]
    assert amounts("rate", "", rates).share(0) == 0


def test_a_size_that_was_measured_and_not_predicted_is_named_too() -> None:
    line = [{"nodes": nodes, "rate": 1.0 * nodes, "ideal": 1.0 * nodes} for nodes in (1, 8)]
    assert "5" in words_of(drawn(scaling("t", line, [{"nodes": 5, "rate": 4.5}]), 0))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([650.0, 3000.0], (700, 1000, 1500, 2000, 3000)),
        ([9.0, 2000.0], (10, 20, 50, 100, 200, 500, 1000, 2000)),
        ([0.5, 90_000.0], (1, 10, 100, 1000, 10_000, 100_000)),
        ([42.0], (40, 45, 42)),
    ],
)
def test_a_wide_range_is_named_by_round_numbers_that_lie_in_it(
    values: list[float], named: tuple[float, ...]
) -> None:
    axis = magnitudes("cost", "USD", values)
    assert set(axis.values) <= set(named)
    assert all(axis.least <= value <= axis.most for value in axis.values)
    assert axis.least < min(values) <= max(values) < axis.most


def test_labels_that_would_hide_each_other_are_moved_or_left_out() -> None:
    axes = (magnitudes("time", "h", [1, 1000]), magnitudes("cost", "USD", [1, 1000]))
    crowd = [Label(x=10 + place / 10, y=10, text="64 × p6-b200.48xlarge") for place in range(30)]
    placed = place_labels(crowd, [(each.x, each.y) for each in crowd], axes, (640, 300))
    assert 1 <= len(placed) < len(crowd)
    assert len({(each.align, each.dx, each.dy) for each in placed}) == len(placed)


def test_no_label_leaves_a_drawing_of_a_phone() -> None:
    axes = (counts("time", "h", [1, 2, 3]), counts("cost", "USD", [1, 2, 3]))
    for x in (1, 2, 3):
        for placed in place_labels([Label(x=x, y=2, text="1 × p5")], [(x, 2)], axes, (270, 250)):
            at = axes[0].share(x) * 270 + placed.dx
            assert 0 <= (at if placed.align == "left" else at - 35) <= 270


def test_the_cost_of_many_small_sequences_has_no_row_of_zeros() -> None:
    points = [
        {"time": 0.001 * each, "cost": 0.02 / each, "group": "other", "label": ""} for each in (1, 3, 9, 40)
    ]
    said = words_of(drawn(cost_against_time("t", points, units=("h", "USD"), chosen="x"), 0))
    assert not [word for word in said if word.startswith("0.00000")]


# A notebook shows pictures of a loss and of costs; without values, one line says what to do.

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
