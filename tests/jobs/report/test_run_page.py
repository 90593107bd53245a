"""The page of a user's own run shows what it reported, its attempts and nodes, and its last lines."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slipway.jobs.report.charts import CannotDraw, drawer
from slipway.jobs.report.page import render
from slipway.jobs.report.run_page import LAST_LINES, run_page
from slipway.jobs.submit.logs import LogLine
from slipway.jobs.words.run import Attempt, Cost, JobState, Run
from slipway.jobs.words.targets import BatchTarget
from tests.jobs.conftest import Slipway
from tests.jobs.report.test_report import HOSTILE, Reading
from tests.jobs.submit.test_rate import run_in
from tests.yard.conftest import RunningYard

BEGAN = datetime(2026, 11, 22, 10, tzinfo=UTC)
RUN = Run(
    id="0a1b", name="mine-0123456789ab", target="c6i", region="us-east-1", state=JobState.SUCCEEDED,
    status="SUCCEEDED", reason=None, recipe="command", nodes=2, instance_type="c6i.16xlarge",
    created_at=BEGAN, started_at=BEGAN, stopped_at=BEGAN + timedelta(hours=1.5),
    exit_code=0, image=None, image_digest=None,
    attempts=(
        Attempt(started_at=BEGAN, stopped_at=BEGAN + timedelta(hours=1), exit_code=85, reason="host lost"),
        Attempt(started_at=None, stopped_at=BEGAN + timedelta(hours=1.5), exit_code=0, reason=None),
    ),
    hours=1.5, cost=Cost(usd=8.16, node_hours=3.0, price=None), depends_on=(),
)  # fmt: skip
TEXTS = (
    "[node 0] mine-0123456789ab, attempt 1: ranks 0 to 1 of 4 start on ip-10-30-0-5",
    "[node 1] mine-0123456789ab, attempt 1: ranks 2 to 3 of 4 start on ip-10-30-0-6",
    "[0] {'loss': '3.5', 'learning_rate': '1e-4', 'epoch': '0.5'}",
    "[0] {'eval_loss': '3.2', 'epoch': '0.5'}",
    "[0] {'loss': 'nan', 'epoch': '1.0'}",
    "[0] {'loss': '2.5', 'epoch': '1.5'}",
    f"[1] {HOSTILE}",
)


def lines(*texts: str) -> list[LogLine]:
    marks = {"[0": 0, "[1": 1}
    return [LogLine(time=BEGAN, node=0, rank=marks.get(text[:2]), text=text) for text in texts]


def page_of(run: Run, *texts: str) -> Reading:
    return Reading(render(run_page(run, lines(*texts))))


def test_what_draws_is_named_with_its_extra_where_it_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(CannotDraw) as refused:
        drawer()
    assert refused.value.hint == "pip install 'slipway[report]'"


def test_a_run_s_page_has_its_curves_attempts_nodes_cost_and_last_lines() -> None:
    pytest.importorskip("vl_convert")
    page = page_of(RUN, *TEXTS)
    for said in (
        "succeeded",
        "1.50 h",
        "8.16 USD",
        "host lost",
        "85",
        "ip-10-30-0-6",
        "ranks 2 to 3 of 4",
    ):
        assert said in page.text
    assert "training goes from 3.5 to 2.5; evaluation goes from 3.2 to 3.2, by step 3." in page.text
    assert "learning rate" in page.text
    assert "reports are counted instead" in page.text


def test_what_a_rank_prints_stays_text() -> None:
    pytest.importorskip("vl_convert")
    page = page_of(RUN, *TEXTS)
    assert "<script>alert(1)</script>" in page.text
    assert not page.all("script")
    assert not page.all("img")


def test_a_run_that_reported_nothing_still_has_a_page() -> None:
    page = page_of(replace(RUN, attempts=(), hours=None, cost=Cost(usd=None, node_hours=None, price=None)))
    assert "printed nothing in which Slipway finds a step" in page.text
    assert page.text.count("unknown") == 2
    assert not page.all("svg")


def test_only_the_last_lines_of_a_long_log_are_shown() -> None:
    page = page_of(RUN, *(f"[1] line {number}" for number in range(500)))
    assert len(page.all("tr")) == LAST_LINES + 1 + 1 + len(RUN.attempts)
    assert "line 499" in page.text


def test_the_command_makes_a_page_of_a_run_that_has_no_estimate(
    target: BatchTarget, yard_shell: RunningYard, slipway: Slipway, tmp_path: Path
) -> None:
    pytest.importorskip("vl_convert")
    run_in(yard_shell, target, list(TEXTS[:4]), tags={"slipway:nodes": "2", "slipway:recipe": "command"})
    err = slipway.told("report", "page", "0a1b", "-o", str(tmp_path / "run.html"))
    assert "without an estimate: recipe 'command' trains no model" in err
    assert "ip-10-30-0-6" in (tmp_path / "run.html").read_text(encoding="utf-8")
