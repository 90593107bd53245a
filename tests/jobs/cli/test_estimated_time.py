"""The time of an estimate is that of the run which submit would start, and says what it is derived from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.containers.recipes.bert_pretrain.config import decode_arguments, plan_batch
from tests.jobs.conftest import Slipway


@pytest.fixture(autouse=True)
def nothing_of_my_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SLIPWAY_CALIBRATION", raising=False)


@pytest.mark.parametrize("nodes", [1, 8, 16])
@pytest.mark.parametrize(
    "settings",
    [
        ("size=1.5b", "zero=1"),
        ("size=1.5b", "steps=69"),
        ("size=large", "global_batch=65536"),
        ("phase=2",),
        (),
    ],
    ids=" ".join,
)
def test_the_time_is_of_the_run_that_submit_starts_with_the_same_settings(
    slipway: Slipway, settings: tuple[str, ...], nodes: int
) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    on = ("estimate", "bert_pretrain", "--on", "dl1", "--nodes", str(nodes))
    (row,) = json.loads(slipway(*on, *words, "--json")[1])
    run = decode_arguments(settings)
    batch = plan_batch(run, readers=nodes * 8).global_batch
    steps = run.steps_of(batch)
    assert (row["steps"], row["sequences_per_step"]) == (steps, batch)
    seconds = steps * batch / float(str(row["sequences_per_second"])) + 10
    assert float(str(row["hours"])) * 3600 == pytest.approx(seconds)
    assert row["time_basis"] == (
        f"derived: {steps:,} steps of {batch:,} sequences at this rate, and 10 s to start"
    )


def test_twice_the_nodes_take_half_the_steps_of_twice_the_sequences(slipway: Slipway) -> None:
    on = ("bert_pretrain", "--on", "dl1", "--nodes", "16", "--set", "size=1.5b")
    _, out, err = slipway("estimate", *on)
    assert "3,450 × 49,152 12.9 h" in " ".join(out.splitlines()[2].split())
    assert "time and cost: derived from the rate: 169,574,400 sequences of phase 1" in err
    _, _, err = slipway("estimate", *on, "--set", "steps=69")
    assert "derived from the rate: 69 steps of phase 1" in err
