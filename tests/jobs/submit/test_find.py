"""A run is found by what a user remembers, read even if the platform leaves fields out, and priced."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway.jobs.platforms.batch.runs import read_run
from slipway.jobs.submit.find import UnknownJob, find_run, list_runs
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.run import JobState
from slipway.jobs.words.targets import BatchTarget
from slipway.yard.gateway.faults import Fault, FaultKind, script, unscript
from tests.jobs.words.test_targets import TARGET
from tests.yard.conftest import RunningYard

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def milliseconds(hours: float) -> int:
    return int((NOON + timedelta(hours=hours)).timestamp() * 1000)


def detail(**changes: Any) -> dict[str, Any]:
    return {
        "jobId": "0a1b",
        "jobName": "bert-012345678901",
        "status": "RUNNING",
        "createdAt": milliseconds(-1),
        "startedAt": milliseconds(0),
        "tags": {"slipway:recipe": "bert_pretrain", "slipway:nodes": "2"},
        **changes,
    }


def list_jobs(yard: RunningYard, *pages: list[dict[str, Any]]) -> None:
    """Answer the one call with these pages, each but the last with a token."""
    body: list[dict[str, Any]] = [
        {"jobSummaryList": page, "nextToken": str(number)} for number, page in enumerate(pages)
    ]
    body[-1].pop("nextToken")
    script(yard, Fault(service="batch", operation="ListJobs", kind=FaultKind.RESPOND, body=body))


def describe(yard: RunningYard, *details: dict[str, Any]) -> None:
    body = [{"jobs": list(details)}]
    script(
        yard,
        Fault(service="batch", operation="DescribeJobs", kind=FaultKind.RESPOND, body=body, times=None),
    )


def summary(job_id: str, name: str) -> dict[str, Any]:
    return {"jobId": job_id, "jobName": name}


def test_a_running_job_costs_what_its_nodes_cost_until_now_and_one_that_never_started_nothing() -> None:
    now = NOON + timedelta(hours=3)
    run = read_run(detail(), TARGET, now=now)
    price = instance_type("dl1.24xlarge").price
    assert price is not None
    assert (run.state, run.recipe, run.nodes, run.hours) == (JobState.RUNNING, "bert_pretrain", 2, 3.0)
    assert run.cost.usd == pytest.approx(6 * price.usd_per_hour)
    assert run.cost.price == price
    never = read_run(detail(status="FAILED", startedAt=0, stoppedAt=milliseconds(1)), TARGET)
    assert (never.hours, never.cost.usd) == (0.0, 0.0)
    unpriced = read_run(detail(), replace(TARGET, instance_type="dl9.large"), now=now)
    assert (unpriced.hours, unpriced.cost.usd, unpriced.cost.price) == (3.0, None, None)


def test_every_attempt_is_counted_once_and_the_one_that_runs_after_those_that_ended() -> None:
    attempts = [
        {"startedAt": milliseconds(0), "stoppedAt": milliseconds(1), "container": {"exitCode": 85}},
        {"startedAt": milliseconds(2), "stoppedAt": milliseconds(4), "container": {"exitCode": 1}},
    ]
    last = {"startedAt": milliseconds(2), "stoppedAt": milliseconds(4)}
    run = read_run(detail(status="FAILED", attempts=attempts, **last), TARGET)
    assert (run.hours, run.exit_code, [attempt.exit_code for attempt in run.attempts]) == (3.0, 1, [85, 1])
    running = detail(attempts=attempts[:1], startedAt=milliseconds(2))
    assert read_run(running, TARGET, now=NOON + timedelta(hours=3)).hours == 2.0


def test_what_is_not_told_stays_unknown() -> None:
    run = read_run({"jobId": "0a1b", "status": "HIBERNATING"}, TARGET)
    assert (run.state, run.status) == (JobState.UNKNOWN, "HIBERNATING")
    assert (run.recipe, run.nodes, run.cost.usd, run.created_at) == (None, None, None, None)
    ended = read_run({"jobId": "0a1b", "status": "SUCCEEDED"}, TARGET)
    assert (ended.hours, ended.cost.usd) == (None, None)


@pytest.fixture
def target(yard_shell: RunningYard) -> Any:
    yield TARGET
    unscript(yard_shell)


@pytest.mark.parametrize("text", ["0a1b", "0a", "bert-012345678901", "bert-0"])
def test_a_job_is_found_by_id_name_or_the_beginning_of_either_and_first_by_its_whole_name(
    yard_shell: RunningYard, target: BatchTarget, text: str
) -> None:
    list_jobs(yard_shell, [summary("9f", "gpt2-1")], [], [summary("0a1b", "bert-012345678901")])
    describe(yard_shell, detail())
    assert find_run(text, [target]).run.id == "0a1b"
    unscript(yard_shell)
    list_jobs(yard_shell, [summary("1", "bert"), summary("0a1b", "bert-012345678901")])
    describe(yard_shell, detail(jobId="1", jobName="bert"))
    assert find_run("bert", [target]).run.id == "1"


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("bert", "2 jobs begin with 'bert'", "bert-1 (1), bert-2 (2)"),
        ("gpt", "no job's name or id is 'gpt'", "there are bert-1 (1)"),
        ("", "no job's name or id is ''", "there are bert-1 (1)"),
    ],
)
def test_what_is_not_one_job_is_refused_with_those_there_are(
    yard_shell: RunningYard, target: BatchTarget, text: str, said: str, hint: str
) -> None:
    list_jobs(yard_shell, [summary("1", "bert-1"), summary("2", "bert-2")])
    with pytest.raises(UnknownJob, match=said) as refusal:
        find_run(text, [target])
    assert hint in refusal.value.hint


def test_a_twin_that_has_not_ended_yet_does_not_make_a_name_mean_two_jobs(
    yard_shell: RunningYard, target: BatchTarget
) -> None:
    """The job runs on for half a minute, and Batch gives the reason only afterwards."""
    name = "bert-012345678901"
    twin, first = ({**summary(each, name), "createdAt": at} for each, at in (("9f", 2), ("0a1b", 1)))
    list_jobs(yard_shell, [twin, first])
    describe(yard_shell, detail())
    assert find_run(name, [target]).run.id == "0a1b"
    unscript(yard_shell)
    list_jobs(yard_shell, [summary("1", "by-hand"), summary("2", "by-hand")])
    with pytest.raises(UnknownJob, match="2 jobs begin with 'by-hand'"):
        find_run("by-hand", [target])


def test_runs_come_newest_first_and_those_without_a_date_last(
    yard_shell: RunningYard, target: BatchTarget
) -> None:
    list_jobs(yard_shell, [summary("1", "a"), summary("2", "b"), summary("3", "c")])
    old, new = detail(jobId="1", createdAt=milliseconds(-5)), detail(jobId="2", createdAt=milliseconds(-1))
    describe(yard_shell, old, {"jobId": "3"}, new)
    assert [run.id for run in list_runs([target])] == ["2", "1", "3"]


def test_a_page_that_comes_again_and_again_ends_in_an_error(
    yard_shell: RunningYard, target: BatchTarget
) -> None:
    from botocore.exceptions import PaginationError

    page: dict[str, Any] = {"jobSummaryList": [], "nextToken": "same"}
    fault = Fault(service="batch", operation="ListJobs", kind=FaultKind.RESPOND, body=[page], times=None)
    script(yard_shell, fault)
    with pytest.raises(PaginationError):
        list_runs([target])
