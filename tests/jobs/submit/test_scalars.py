"""The charts of a job are made of its log as telemetry would have written them, each line once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.submit.curve import ScalarFile
from slipway.jobs.submit.logs import LogLine

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
