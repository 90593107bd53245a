"""`slipway plan run` begins nothing that costs money which nobody agreed to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.cloud import aws
from slipway.jobs.plan.inputs.plan_json import encode_plan
from slipway.jobs.plan.run.journal import Ledger
from slipway.jobs.plan.run.running import PlanRun
from slipway.jobs.plan.search.list_schedule import as_plan, list_schedule
from slipway.jobs.plan.search.model import LowerBound
from slipway.jobs.words.job import Job
from tests.jobs.conftest import Slipway
from tests.jobs.plan.search.small import POOL, job, problem_of

NOTHING_KNOWN = LowerBound(value=0, name="none")
RECIPE = Job(name="lr1", recipe="bert_pretrain", nodes=1, settings={"size": "tiny"})


def plan_at(path: Path, *, usd_per_hour: float) -> Path:
    pool = replace(POOL, price_per_hour=usd_per_hour, cluster="dl1")
    problem = problem_of(replace(job("lr1", (8, 36_000)), job=RECIPE), pool=pool)
    path.write_text(encode_plan(as_plan(problem, list_schedule(problem, [0], [0]), NOTHING_KNOWN)))
    return path


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> list[PlanRun]:
    """Note what would begin, on what is not the yard."""
    found: list[PlanRun] = []

    def finish(run: PlanRun) -> Ledger:
        found.append(run)
        return run.ledger

    monkeypatch.setattr(aws, "is_in_yard", lambda: False)
    monkeypatch.setattr(PlanRun, "finish", finish)
    return found


def test_a_plan_without_a_known_price_runs_only_when_that_was_agreed_to(
    tmp_path: Path, slipway: Slipway, begun: list[PlanRun]
) -> None:
    plan = str(plan_at(tmp_path / "plan.json", usd_per_hour=0.0))
    for agreed in ((), ("--confirm-cost", "1000000")):
        code, _, err = slipway("plan", "run", plan, *agreed)
        assert (code, begun) == (1, [])
        assert "costs an amount that is not known (no price of p4d)" in err
        assert "--confirm-cost unknown" in err
    slipway("plan", "run", plan, "--confirm-cost", "unknown")
    assert len(begun) == 1


def test_a_plan_runs_only_when_as_many_dollars_were_agreed_to(
    tmp_path: Path, slipway: Slipway, begun: list[PlanRun]
) -> None:
    plan = str(plan_at(tmp_path / "plan.json", usd_per_hour=36.0))
    for agreed in ("359", "unknown"):
        code, _, err = slipway("plan", "run", plan, "--confirm-cost", agreed)
        assert (code, begun) == (1, [])
        assert "costs about 360.00 USD" in err
        assert "--confirm-cost 360" in err
    slipway("plan", "run", plan, "--confirm-cost", "360")
    assert len(begun) == 1


def test_a_job_that_was_written_into_the_file_later_joins_in(
    tmp_path: Path, slipway: Slipway, begun: list[PlanRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws, "is_in_yard", lambda: True)
    path = plan_at(tmp_path / "plan.json", usd_per_hour=36.0)
    written = json.loads(path.read_text())
    written["jobs"].append({**written["jobs"][0], "name": "late", "depends_on": ["lr1"]})
    path.write_text(json.dumps(written))
    _, out, err = slipway("plan", "run", str(path), "--json")
    assert [job.name for job in begun[0].plan.jobs] == ["lr1", "late"], err
    assert [row["job"] for row in json.loads(out)] == ["lr1", "late"]
    assert "job 'late' is planned 0 times" in slipway("plan", "make", str(path), "--diff", str(path))[2]
