"""`slipway plan make` shows a plan with its proof, and `plan run` begins nothing without agreement."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slipway.jobs.cloud import aws
from slipway.jobs.plan.inputs import planning
from slipway.jobs.plan.inputs.plan_json import encode_plan, read_plan
from slipway.jobs.plan.run.journal import Ledger
from slipway.jobs.plan.run.running import PlanRun
from slipway.jobs.plan.search.list_schedule import as_plan, list_schedule
from slipway.jobs.words.job import Job
from tests.jobs.conftest import Slipway
from tests.jobs.plan.search.small import POOL, job, problem_of

QUICK = ("--time-limit", "1")


def mode(devices: int, seconds: float, type_name: str = "p4d") -> dict[str, Any]:
    return {"technique": "ddp", "type": type_name, "devices": devices, "seconds": seconds}


def instance(**fields: Any) -> dict[str, Any]:
    jobs = [
        {"name": name, "steps": 10, "modes": [mode(1, 400), mode(2, 210), mode(4, 110)]} for name in "abcd"
    ]
    pool = {"type": "p4d", "nodes": 2, "devices_per_node": 4, "price_per_hour": 36.0}
    return {"name": "small", "pools": [pool], "jobs": jobs, **fields}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(instance()))
    return path


def test_the_answer_for_programs_has_what_was_promised(file: Path, slipway: Slipway) -> None:
    found = slipway.json("plan", "make", str(file), "--json", *QUICK)
    assert {"assignments", "makespan", "dollars", "bound", "bound_name", "gap"} <= set(found)
    assert sorted(each["job"] for each in found["assignments"]) == list("abcd")
    first = found["assignments"][0]
    assert {"job", "technique", "type", "devices", "start", "seconds", "placement"} <= set(first)
    assert sum(len(share["devices"]) for share in first["placement"]) == first["devices"]
    assert found["makespan"] == max(each["start"] + each["seconds"] for each in found["assignments"])
    assert 200 <= found["bound"] <= found["makespan"]
    assert found["gap"] == pytest.approx(found["makespan"] / found["bound"] - 1)


def test_people_see_a_row_for_each_job_and_the_proof(file: Path, slipway: Slipway) -> None:
    out = slipway.printed("plan", "make", str(file), *QUICK)
    lines = out.splitlines()
    assert lines[0].split()[:4] == ["job", "technique", "type", "devices"]
    assert len(lines) == 6
    assert lines[-1].startswith("makespan 0:0")
    assert "lower bound" in lines[-1]
    assert "gap" in lines[-1]
    assert "stopped: " in lines[-1]


def test_only_what_a_plan_needs_has_to_be_said(tmp_path: Path, slipway: Slipway) -> None:
    path = tmp_path / "least.json"
    jobs = [{"name": "a", "modes": [{"type": "p4d.24xlarge", "devices": 16, "seconds": 60.5}]}]
    path.write_text(json.dumps({"pools": [{"type": "p4d.24xlarge", "nodes": 2}], "jobs": jobs}))
    out = slipway.printed("plan", "make", str(path), "--json", *QUICK)
    (only,) = json.loads(out)["assignments"]
    assert (only["seconds"], [share["node"] for share in only["placement"]]) == (61, [0, 1])
    assert json.loads(out)["dollars"] > 0  # the catalogue's price


def test_dollars_are_made_small_before_a_deadline(file: Path, slipway: Slipway) -> None:
    asked = ("--objective", "cost", "--deadline", "15m", "--json", *QUICK)
    found = slipway.json("plan", "make", str(file), *asked)
    assert found["makespan"] <= 900
    assert found["dollars"] == pytest.approx(4 * 400 * 9 / 3600)
    assert found["bound"] == pytest.approx(found["dollars"])


def test_dollars_are_no_goal_where_a_price_is_not_known(tmp_path: Path, slipway: Slipway) -> None:
    path = tmp_path / "unpriced.json"
    path.write_text(json.dumps(instance(pools=[{"type": "p4d", "nodes": 2, "devices_per_node": 4}])))
    for goal in (("--objective", "cost"), ("--budget", "9")):
        code, out, err = slipway("plan", "make", str(path), *goal, *QUICK)
        assert (code != 0, out) == (True, "")
        assert "no price of p4d is known, and the goal is in dollars" in err


def test_a_plan_that_was_written_is_read_as_it_was_and_can_be_planned_again(
    file: Path, tmp_path: Path, slipway: Slipway
) -> None:
    path = tmp_path / "plan.json"
    assert "written to" in slipway.told("plan", "make", str(file), "--output", str(path), *QUICK)
    read = read_plan(path)
    assert [each.job for each in read.assignments] == list("abcd")
    code, out, err = slipway("plan", "make", str(path), "--json", *QUICK)
    assert code == 0
    assert "is ignored" not in err
    assert json.loads(out)["makespan"] == read.makespan


def test_jobs_that_nobody_planned_are_not_run_and_the_way_to_plan_them_is_said(
    file: Path, slipway: Slipway
) -> None:
    sweep = file.with_name("a sweep.toml")
    sweep.write_text("")
    for given, shown in ((file, file), (sweep, f"'{sweep}'")):
        err = slipway.refused("plan", "run", str(given), code=2)
        assert f"{given} has jobs to plan, and is no plan" in err
        assert f"slipway plan make {shown} --output plan.json" in err


@pytest.mark.parametrize("option", ["--output", "--html"])
def test_a_result_that_cannot_be_written_is_refused_before_the_search(
    file: Path, slipway: Slipway, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    """BI-413"""
    monkeypatch.setattr(planning, "plan", lambda *_, **__: pytest.fail("it searched"))
    err = slipway.refused("plan", "make", str(file), option, str(file.parent / "none" / "x"))
    assert "cannot be written: there is no folder" in err


def test_a_plan_over_its_own_input_is_written_when_it_is_whole(file: Path, slipway: Slipway) -> None:
    """BI-412"""
    slipway.told("plan", "make", str(file), "--output", str(file), *QUICK)
    assert slipway("plan", "make", str(file), *QUICK)[0] == 0, "a plan may be planned again"


def test_an_interrupt_keeps_the_best_plan_so_far(
    file: Path, slipway: Slipway, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = planning.plan

    def interrupted(*arguments: Any, **asked: Any) -> None:
        whole(*arguments, **asked)
        raise KeyboardInterrupt

    monkeypatch.setattr(planning, "plan", interrupted)
    assert "stopped: interrupted" in slipway.printed("plan", "make", str(file), *QUICK)


def test_a_plan_is_explained_and_compared_with_an_earlier_one(
    file: Path, tmp_path: Path, slipway: Slipway
) -> None:
    path = tmp_path / "plan.json"
    slipway.told("plan", "make", str(file), "--output", str(path), *QUICK)
    asked = ("--explain", "a", "--diff", str(path), *QUICK)
    out = slipway.printed("plan", "make", str(file), *asked)
    assert "why: " in out
    assert "next best: " in out
    assert "0 jobs changed, 4 are as before; makespan +0:00:00, cost +0 USD" in out
    found = slipway.json("plan", "make", str(file), "--json", *asked)
    assert found["explanation"]["assignment"]["job"] == "a"
    assert found["diff"]["same"] == 4


def test_a_plan_is_written_as_a_page(file: Path, tmp_path: Path, slipway: Slipway) -> None:
    path = tmp_path / "plan.html"
    assert f"written to {path}" in slipway.told("plan", "make", str(file), "--html", str(path), *QUICK)
    assert path.read_text().startswith("<!DOCTYPE html>")


# `slipway plan run` begins nothing that costs more money than was agreed to.
RECIPE = Job(name="lr1", recipe="bert_pretrain", nodes=1, settings={"size": "tiny"})


def plan_at(path: Path, *, usd_per_hour: float) -> Path:
    pool = replace(POOL, price_per_hour=usd_per_hour, cluster="dl1")
    problem = problem_of(replace(job("lr1", (8, 36_000)), job=RECIPE), pool=pool)
    path.write_text(encode_plan(as_plan(problem, list_schedule(problem, [0], [0]))))
    return path


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> list[PlanRun]:
    """Record what would begin, as if this were AWS and not the yard."""
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


def test_a_plan_that_an_error_ends_says_that_its_jobs_go_on(
    tmp_path: Path, slipway: Slipway, begun: list[PlanRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    def expired(_: PlanRun) -> Ledger:
        raise ClientError({"Error": {"Code": "ExpiredToken", "Message": "old"}}, "DescribeJobs")

    monkeypatch.setattr(PlanRun, "finish", expired)
    plan = str(plan_at(tmp_path / "plan.json", usd_per_hour=36.0))
    err = slipway.told("plan", "run", plan, "--confirm-cost", "360", code=1)
    assert "its jobs go on; the same command goes on with the plan" in err


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
