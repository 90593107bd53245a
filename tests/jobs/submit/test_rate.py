"""A run of ours as a measurement: what is counted, what it was a run of, and what calibrating changes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.estimate.evidence.measurements import decode_measurements
from slipway.jobs.submit.curve import Point
from slipway.jobs.submit.rate import LEAST_STEPS, processes_of, settings_of, steady_rate
from slipway.jobs.words.targets import BatchTarget
from slipway.yard.gateway.faults import Fault, FaultKind, script, unscript
from tests.jobs.conftest import Slipway
from tests.yard.conftest import RunningYard


@pytest.fixture(autouse=True)
def nothing_of_my_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def point(step: int, rate: float, attempt: int = 1) -> Point:
    return Point(step=step, steps=1000, loss=1.0, sequences_per_second=rate, attempt=attempt)


@pytest.mark.parametrize(
    ("curve", "rate", "steps"),
    [
        ([point(5, 1.0), point(10, 2.0), point(20, 100.0), point(30, 100.0)], 100.0, 20),
        ([point(10, 1.0), point(20, 100.0), point(30, 2.0, 2), point(40, 100.0, 2)], 100.0, 20),
        ([point(10, 1.0), point(20, 50.0), point(30, 150.0)], 75.0, 20),
        ([], 0.0, 0),
    ],
    ids=["not the first", "nor those of a resumption", "seconds are added up, not rates", "no step"],
)
def test_the_rate_is_of_the_steady_steps(curve: list[Point], rate: float, steps: int) -> None:
    assert steady_rate(curve) == pytest.approx((rate, steps))


WORDS = "--set size=large --set micro_batch=64 --set global_batch=65536 --set log_every=5"
SETTINGS = tuple(WORDS.split())


def test_what_a_run_was_told_is_found_in_what_batch_knows_of_it(
    target: BatchTarget, yard_shell: RunningYard, slipway: Slipway
) -> None:
    asked = "submit bert_pretrain --on dl1 --nodes 2 --processes-per-node 4 --timeout-hours 1 --json"
    job = slipway.json(*asked.split(), *SETTINGS)["id"]
    (detail,) = yard_shell.client("batch").describe_jobs(jobs=[job])["jobs"]
    assert settings_of(detail) == dict(word.split("=") for word in SETTINGS if "=" in word)
    assert processes_of(detail) == 4


def run_in(yard: RunningYard, target: BatchTarget, lines: list[str], **changes: Any) -> None:
    """The one job that Batch knows: of two nodes of eight devices, whose first rank printed these lines."""
    logs = yard.client("logs")
    logs.create_log_group(logGroupName=target.log_group)
    logs.create_log_stream(logGroupName=target.log_group, logStreamName="job/0")
    events = [
        {"timestamp": int(time.time() * 1000) + number, "message": line} for number, line in enumerate(lines)
    ]
    logs.put_log_events(logGroupName=target.log_group, logStreamName="job/0", logEvents=events)
    know(yard, **changes)


def know(yard: RunningYard, **changes: Any) -> None:
    """Let Batch tell this of the job alone."""
    command = ["python", "-m", "slipway.containers.runtime.launch", "--module", "x", "--", *SETTINGS]
    summary = {"jobId": "0a1b", "jobName": "bert_pretrain-012345678901"}
    node = {"nodeRangeProperties": [{"targetNodes": "0:", "container": {"command": command}}], "numNodes": 2}
    detail = {
        **summary,
        "jobId": "0a1b#0",  # asked for by node, Batch gives each its number
        "status": "SUCCEEDED",
        "tags": {"slipway:nodes": "2", "slipway:recipe": "bert_pretrain"},
        "nodeProperties": node,
        "container": {"logStreamName": "job/0"},
        **changes,
    }
    for operation, body in (
        ("ListJobs", {"jobSummaryList": [summary]}),
        ("DescribeJobs", {"jobs": [detail]}),
    ):
        fault = Fault(service="batch", operation=operation, kind=FaultKind.RESPOND, body=[body], times=None)
        script(yard, fault)


def line(step: int, rate: float) -> str:
    return f"[0] step {step}/100  loss 8.0  lr 0.1  |g| 1.0  {rate:,.1f} sequences/s  0:00:25 left"


STEADY = [line(step, 10.0 if step <= 10 else 2500.0) for step in range(5, 101, 5)]


def test_calibrating_writes_a_row_once_and_says_what_changes(
    target: BatchTarget, yard_shell: RunningYard, slipway: Slipway, tmp_path: Path
) -> None:
    run_in(yard_shell, target, STEADY)
    code, out, err = slipway("calibrate", "bert_pretrain", "--from-yard", "--json")
    assert code == 0, err
    said = json.loads(out)
    assert said["before"] == pytest.approx(2709.6, abs=0.1)  # by the published row
    assert said["after"] == pytest.approx(2500.0, rel=1e-6)
    file = tmp_path / "config" / "slipway" / "calibration.csv"
    assert f"written to {file}" in err
    assert slipway.json("calibrate", "bert_pretrain", "--from-yard", "--json") == said
    (row,) = decode_measurements(file.read_text(), str(file))
    assert (row.model, row.nodes, row.sequences_per_second) == ("bert-large", 2, 2500.0)
    assert row.utilisation == pytest.approx(said["utilisation"])
    assert "90 steps of 0a1b" in row.source


def test_a_run_that_is_faster_than_the_model_allows_says_so(
    target: BatchTarget, yard_shell: RunningYard, slipway: Slipway
) -> None:
    run_in(yard_shell, target, [line(step, 9_500.0) for step in range(5, 101, 5)])
    err = slipway.told("calibrate", "bert_pretrain", "--from-yard", "--json")
    assert "warning: the model cannot meet 9500 sequences a second" in err


def test_a_run_of_the_yard_is_taken_only_when_somebody_says_so(
    target: BatchTarget, yard_shell: RunningYard, slipway: Slipway, tmp_path: Path
) -> None:
    run_in(yard_shell, target, STEADY)
    err = slipway.refused("calibrate", "bert_pretrain")
    assert "ran in the yard, on this machine's processors and not on a dl1.24xlarge" in err
    assert "nothing was changed" in slipway.told("calibrate", "bert_pretrain", "--dry-run")
    assert not (tmp_path / "config").exists()


def test_a_run_that_is_too_short_or_trains_no_model_is_refused(
    target: BatchTarget, yard_shell: RunningYard, slipway: Slipway
) -> None:
    run_in(yard_shell, target, STEADY[: (10 + LEAST_STEPS) // 5 - 1], status="RUNNING")
    err = slipway.refused("calibrate", "bert_pretrain", "--from-yard")
    assert f"has reported 15 steps after the first 10 of each attempt; at least {LEAST_STEPS}" in err
    assert "run it for 30 steps or more" in err
    unscript(yard_shell)
    know(yard_shell, tags={"slipway:nodes": "2", "slipway:recipe": "prepare_bert"})
    err = slipway.told("calibrate", "bert_pretrain", "--from-yard", code=2)
    assert "recipe 'prepare_bert' trains no model" in err


def test_a_report_lays_the_run_beside_its_estimate_and_never_beside_itself(
    target: BatchTarget, yard_shell: RunningYard, slipway: Slipway, tmp_path: Path
) -> None:
    pytest.importorskip("vl_convert")
    run_in(yard_shell, target, STEADY)
    page = tmp_path / "run.html"
    slipway.told("report", "page", "bert_pretrain-0123", "-o", str(page))
    assert "90 steps on 2 nodes (16 devices) trained 2,500.0 sequences a second" in page.read_text()
    assert "the estimate is 2,709.6 (calibrated, ± " in page.read_text()
    assert "ran in the yard" in page.read_text()
    assert "Not counted: efs: as much as is stored" in page.read_text()
    slipway.told("calibrate", "bert_pretrain", "--from-yard")
    slipway.told("report", "page", "bert_pretrain-0123", "-o", str(page))
    assert "the estimate is 2,709.6" in page.read_text(), "the run was calibrated with"


def test_a_curve_shows_the_metrics_that_are_asked_for_and_names_the_others(
    target: BatchTarget, yard_shell: RunningYard, slipway: Slipway
) -> None:
    lines = [f"[0] {{'loss': {9 - n}, 'eval_loss': {8 - n}, 'entropy': {n}, 'epoch': {n}}}" for n in (1, 2)]
    run_in(yard_shell, target, lines)
    code, out, err = slipway("report", "curve", "bert_pretrain")
    assert code == 0, err
    assert "2 reports, which do not name their step" in out
    assert "eval_loss" in out
    assert "it also reports entropy: --metric NAME" in err
    assert "entropy" in slipway("report", "curve", "bert_pretrain", "--metric", "entropy")[1]
    err = slipway.refused("report", "curve", "bert_pretrain", "--metric", "accuracy")
    assert "has reported no accuracy\nhint: it reports loss, entropy, eval_loss" in err
    found = slipway.json("report", "curve", "bert_pretrain", "--json")
    assert found[1]["metrics"] == {"loss": 7.0, "eval_loss": 6.0, "entropy": 2.0}
