"""`slipway report curve` reads what the recipe prints, and shows each step as the last attempt made it."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.output import bar
from slipway.jobs.submit.curve import ScalarFile, points, thinned
from slipway.jobs.submit.logs import LogLine

FIRST = [
    "[0] no checkpoint in /mnt/shared/checkpoints/x: starting from step 0",
    "[0] step 10/40  loss 8.8861  lr 0.000625  |g| 1.71  89.4 sequences/s  0:00:25 left",
    "[0] step 20/40  loss 8.1727  lr 0.00097  |g| 1.86  1,117.5 sequences/s  MFU 3.1 %  0:00:17 left",
    "[0] step 30/40  loss 9.0000  lr 0.00097  |g| 1.86  117.5 sequences/s  0:00:17 left",
]
SECOND = [
    "[0] resuming from step 20 of /mnt/shared/checkpoints/x",
    "[0] step 30/40  loss 7.2417  lr 0.000896  |g| 1.57  129.1 sequences/s  0:00:14 left",
    "[0] step 40/40  loss nan  lr 0.000896  |g| 1.57  129.1 sequences/s  0:00:00 left",
]


def test_a_step_made_twice_is_shown_as_the_resumed_attempt_made_it_said_or_not() -> None:
    found = points([*FIRST, *SECOND])
    assert [(point.step, point.attempt) for point in found] == [(10, 1), (20, 1), (30, 2), (40, 2)]
    assert found[1].sequences_per_second == 1117.5
    assert found[2].loss == 7.2417
    assert math.isnan(found[3].loss)
    found = points(f"[0] step {step}/30  loss 1" for step in (5, 10, 15, 10, 15, 20))
    assert [(point.step, point.attempt) for point in found] == [(5, 1), (10, 2), (15, 2), (20, 2)]


def test_a_script_of_ones_own_has_a_curve_without_a_throughput() -> None:
    """These lines come from a project's train.py, and from scripts that write them in other ways."""
    printed = ["[0] step 10/200  loss 0.5310", "[0] saved step 20", "step 20/200, lr=0.1, loss=3.2e-1"]
    found = points(printed)
    assert [(point.step, point.steps, point.loss) for point in found] == [(10, 200, 0.531), (20, 200, 0.32)]
    assert [point.sequences_per_second for point in found] == [None, None]


@pytest.mark.parametrize(
    "line",
    [
        "step by step",
        "[1] step 1/2  loss 1  x",
        "[node 0] all ranks succeeded",
        "[0] step 10/20  eval loss 0.5",
        "[0] step 10/20  test loss 0.5",
        "[0] step 10 of 20: loss is small",
    ],
)
def test_other_lines_are_passed_over(line: str) -> None:
    assert points([line]) == []


def test_a_long_curve_is_thinned_to_its_ends() -> None:
    many = points(
        f"[0] step {n}/999  loss 1.0  lr 1  |g| 1  2.0 sequences/s  0:0 left" for n in range(1, 1000)
    )
    shown = thinned(many, 20)
    assert len(shown) == 20
    assert (shown[0].step, shown[-1].step) == (1, 999)
    assert len(bar(4.0, 8.0)) * 2 == len(bar(8.0, 8.0)), "a bar is as long as the loss is high"
    assert bar(math.nan, 8.0) == ""


# The charts of a job's log equal those that telemetry would have written, each line once.
TEXTS = (
    "[0] GPT-NeoX tiny: 768 tokens in 6 steps, from random tokens",
    "[0] step 1/6  loss 8.8861  lr 6.25e-05  |g| 1.71  1,089.4 sequences/s  MFU 3%  24,123 tokens/$  0:25",
    "[0] step 2/6  loss nan  lr 0.0001  |g| inf  9.0 sequences/s  0:00:17 left",
)
LINES = [LogLine(time=datetime(2026, 11, 22, tzinfo=UTC), node=0, rank=0, text=text) for text in TEXTS]


def test_tensorboard_reads_what_the_lines_of_steps_say(tmp_path: Path) -> None:
    loader: Any = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    charts = ScalarFile(tmp_path / "events.out.tfevents.0.job")
    charts.add_new(LINES[:2])
    charts.add_new(LINES)
    events = [event for event in loader.LegacyEventFileLoader(str(charts.path)).Load() if event.summary.value]
    assert [event.step for event in events] == [1, 2]
    first = {value.tag: value.simple_value for value in events[0].summary.value}
    assert first == pytest.approx(
        {
            "train/loss": 8.8861,
            "train/learning_rate": 6.25e-05,
            "train/gradient_norm": 1.71,
            "train/sequences_per_second": 1089.4,
            "train/tokens_per_dollar": 24_123,
        }
    )
    second = {value.tag: value.simple_value for value in events[1].summary.value}
    assert second["train/loss"] != second["train/loss"]
    assert "train/tokens_per_dollar" not in second
