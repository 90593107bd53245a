"""submit, status, logs, cancel and explain work against the yard as a user types them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import pytest

from slipway.containers.runtime.launch.node_roles import WORKED_ALONE
from slipway.jobs.cli import jobs
from slipway.jobs.submit import logs as runs_logs
from slipway.jobs.words.targets import BatchTarget, parameter_name
from slipway.yard.gateway.faults import Fault, FaultKind, script, scripted, unscript
from tests.jobs.conftest import Slipway
from tests.jobs.deployed import job_names
from tests.yard.conftest import REGION, RunningYard

pytestmark = pytest.mark.usefixtures("target")

SUBMIT = ("submit", "bert_pretrain", "--on", "dl1", "--nodes", "2", "--set", "size=tiny")


def job_as(yard: RunningYard, **changes: Any) -> None:
    """Let Batch know only this job from here on."""
    summary = {"jobId": "0a1b", "jobName": "bert-012345678901"}
    detail = {**summary, "status": "RUNNING", "tags": {"slipway:nodes": "2"}, **changes}
    for operation, body in (
        ("ListJobs", {"jobSummaryList": [summary]}),
        ("DescribeJobs", {"jobs": [detail]}),
    ):
        script(
            yard,
            Fault(service="batch", operation=operation, kind=FaultKind.RESPOND, body=[body], times=None),
        )


def test_a_job_is_told_with_what_it_costs_at_most_and_the_same_command_prints_the_same_job(
    yard_shell: RunningYard, target: BatchTarget, slipway: Slipway
) -> None:
    code, out, err = slipway(*SUBMIT, "--timeout-hours", "1", "--attempts", "1", "--json")
    first = json.loads(out)
    assert code == 0
    assert first["name"].startswith("bert_pretrain-")
    assert first["ceiling"]["usd"] == pytest.approx(2 * first["ceiling"]["price"]["usd_per_hour"])
    assert first["ceiling"]["price"]["date"]
    assert "warning: image gaudi:1.18.0-0123456789ab is not pushed" in err
    code, out, err = slipway(*SUBMIT, "--timeout-hours", "1", "--attempts", "1", "--json")
    assert (code, json.loads(out)["id"]) == (0, first["id"])
    assert f"{first['name']} was submitted before; use --again to run it once more" in err
    again = slipway.json(*SUBMIT, "--timeout-hours", "1", "--attempts", "1", "--again", "--json")
    assert again["id"] != first["id"]
    assert len(job_names(yard_shell, target)) == 2


def test_of_several_jobs_the_newest_is_shown_and_named_and_none_is_cancelled_by_a_guess(
    slipway: Slipway,
) -> None:
    first, second = (slipway.json(*SUBMIT, *again, "--json") for again in ((), ("--again",)))
    code, out, err = slipway("status", "bert_pretrain", "--json")
    assert (code, json.loads(out)["id"]) == (0, second["id"])
    which = f"{second['name']} ({second['id']})"
    assert f"the newest of 2 jobs that begin with 'bert_pretrain': {which}" in err
    assert f"the newest job: {which}" in slipway("explain")[2]
    code, out, err = slipway("status", first["name"], "--json")
    assert (json.loads(out)["id"], "newest" in err) == (first["id"], False)
    assert "error: 2 jobs begin with 'bert_pretrain'" in slipway.told("cancel", "bert_pretrain", code=1)
    slipway.told("cancel", first["id"])
    assert slipway.json("cancel", "bert_pretrain", "--json")["id"] == second["id"]


def test_a_job_that_failed_before_is_told_and_not_taken_for_success(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    first = slipway.json(*SUBMIT, "--json")
    slipway.told("cancel", first["id"])
    code, out, err = slipway(*SUBMIT, "--json")
    assert (code, json.loads(out)["state"]) == (1, "failed")
    last = err.splitlines()[-2:]
    assert last[0] == f"error: {first['name']} failed before, and nothing was started"
    assert last[1] == f"hint: slipway explain {first['name']}; --again submits it once more"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--name", "-rf"), "--name: '-rf' is not allowed"),
        (("--set", "seed"), "'seed' has no '='"),
        (("--set", "sise=large"), "sise"),
        (("--nodes", "17"), "asks for 17 nodes but cluster 'dl1' has 16"),
    ],
)
def test_what_is_asked_wrongly_is_refused_in_a_line_and_sends_nothing(
    yard_shell: RunningYard, target: BatchTarget, slipway: Slipway, arguments: tuple[str, ...], said: str
) -> None:
    err = slipway.refused(*SUBMIT, *arguments, code=2)
    assert err.startswith("error: ")
    assert said in err
    assert job_names(yard_shell, target) == []


def test_a_dry_run_prints_the_request_as_it_was_typed_and_sends_nothing(
    yard_shell: RunningYard, target: BatchTarget, slipway: Slipway, tmp_path: Path
) -> None:
    """No setting of the recipe may be text for a shell, so it is in its data, which may be any text."""
    fault = Fault(service="batch", operation="SubmitJob", kind=FaultKind.SERVER_ERROR, times=None)
    script(yard_shell, fault)
    data = "/mnt/$(touch x)/`id`/größe; ls"
    request = slipway.json(*SUBMIT, "--data", data, "--dry-run")["request"]["submit"]
    (override,) = request["nodeOverrides"]["nodePropertyOverrides"]
    environment = {each["name"]: each["value"] for each in override["containerOverrides"]["environment"]}
    assert environment["SLIPWAY_DATA"] == data
    assert request["jobQueue"] == target.queue_arn
    assert scripted(yard_shell)[0]["struck"] == 0
    assert not list(tmp_path.iterdir())


def test_following_ends_with_the_job_and_fails_with_it(
    yard_shell: RunningYard, slipway: Slipway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_logs, "POLL_SECONDS", 0.0)
    job_as(yard_shell, status="FAILED", statusReason="Essential container in task exited")
    err = slipway.refused("logs", "bert", "--follow")
    assert "bert-012345678901: failed, Essential container in task exited" in err


def log(yard: RunningYard, target: BatchTarget, *messages: str) -> None:
    """Let the job that Batch knows have succeeded, with this output of its main node."""
    logs = yard.client("logs")
    logs.create_log_group(logGroupName=target.log_group)
    logs.create_log_stream(logGroupName=target.log_group, logStreamName="job/0")
    described = {"jobId": "0a1b#0", "container": {"logStreamName": "job/0"}, "status": "SUCCEEDED"}
    job_as(yard, **described)
    logs.put_log_events(
        logGroupName=target.log_group,
        logStreamName="job/0",
        logEvents=[
            {"timestamp": int(time.time() * 1000) + number, "message": message}
            for number, message in enumerate(messages)
        ],
    )


def test_logs_are_printed_with_their_node_where_no_rank_says_it(
    yard_shell: RunningYard, target: BatchTarget, slipway: Slipway
) -> None:
    log(yard_shell, target, "checking", "[0] loss 1.0\x1b[2J")
    code, out, _ = slipway("logs", "0a1b")
    assert (code, out) == (0, "[node 0] checking\n[0] loss 1.0\x1b[2J\n")
    lines = [json.loads(line) for line in slipway("logs", "0a1b", "--rank", "0", "--json")[1].splitlines()]
    assert [(line["node"], line["rank"], line["text"]) for line in lines] == [(0, 0, "[0] loss 1.0\x1b[2J")]


@pytest.mark.parametrize("alone", [True, False])
def test_status_and_explain_say_that_ranks_seem_to_have_worked_alone_if_the_log_says_it(
    yard_shell: RunningYard, target: BatchTarget, slipway: Slipway, *, alone: bool
) -> None:
    said = f"the 2 {WORKED_ALONE}: they met nobody; set ACCELERATE_USE_CPU"
    warning = f"[node 0] warning: {said}" if alone else "[0] warning: loss is high"
    log(yard_shell, target, warning, "[node 0] all ranks succeeded; exit code 0")
    told = slipway.json("explain", "0a1b", "--json")
    more = f", but its {WORKED_ALONE}" if alone else ""
    assert told["sentence"] == f"bert-012345678901 succeeded{more}"
    assert ("ACCELERATE_USE_CPU is true" in str(told["fix"])) == alone
    assert (f"the log: {said}" in told["evidence"]) == alone
    assert slipway.json("status", "0a1b", "--json")["warning"] == (said if alone else None)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--node", "2"), 1, "--node is 2, but job 'bert-012345678901' has 2 nodes"),
        (("--rank", "2"), 0, "there is no line of rank 2"),
        (("--rank", "-1"), 2, "--rank is '-1'; allowed are 0, 1, 2 … or all"),
        (("--rank", "٣"), 2, "--rank is"),
    ],
)
def test_a_node_or_rank_that_cannot_be_is_refused(
    yard_shell: RunningYard, slipway: Slipway, arguments: tuple[str, ...], code: int, said: str
) -> None:
    job_as(yard_shell)
    assert said in slipway.told("logs", "bert", *arguments, code=code)


def test_status_lists_what_has_not_ended_and_shows_one_in_full(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    job_as(yard_shell, status="HIBERNATING")
    (listed,) = slipway.json("status", "--json")
    assert (listed["state"], listed["status"], listed["recipe"]) == ("unknown", "HIBERNATING", None)
    assert "HIBERNATING" in slipway("status", "bert")[1]
    unscript(yard_shell)
    job_as(yard_shell, status="SUCCEEDED")
    assert slipway("status") == (
        0,
        "",
        "unfinished jobs: none\nthose that have ended: slipway status --all\n",
    )


def test_runs_say_what_is_known_of_the_cost(yard_shell: RunningYard, slipway: Slipway) -> None:
    job_as(yard_shell, status="SUCCEEDED", startedAt=1_795_000_000_000, stoppedAt=1_795_003_600_000)
    code, out, err = slipway("status", "--all", "--json")
    (run,) = json.loads(out)
    assert (code, run["hours"], run["cost"]["node_hours"]) == (0, 1.0, 2.0)
    assert f"1 runs for {run['cost']['usd']:.2f} USD" in err
    unscript(yard_shell)
    job_as(yard_shell, status="SUCCEEDED")
    assert "0 runs for 0 USD; 1 more of unknown cost" in slipway("status", "--all")[2]


@pytest.mark.parametrize(("status", "times"), [("RUNNING", 1), ("SUCCEEDED", 0)])
def test_cancelling_ends_a_job_that_has_not_ended(
    yard_shell: RunningYard, slipway: Slipway, status: str, times: int
) -> None:
    job_as(yard_shell, status=status)
    fault = Fault(service="batch", operation="TerminateJob", kind=FaultKind.RESPOND, body=[{}])
    script(yard_shell, fault)
    code, out, err = slipway("cancel", "bert", "--json")
    assert (code, json.loads(out)["cancelled"]) == (0, bool(times))
    assert ("bert-012345678901 did not come from this machine's slipway" in err) == bool(times)
    assert ("bert-012345678901 has already ended: succeeded" in err) == (not times)
    assert [each["struck"] for each in scripted(yard_shell) if each["operation"] == "TerminateJob"] == [times]


def test_a_job_of_another_machine_is_told_and_a_person_is_asked_before_it_is_cancelled(
    target: BatchTarget, slipway: Slipway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = slipway.json(*SUBMIT, "--json")["name"]
    assert "of them" not in slipway.told("status")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    words = f"did not come from this machine's slipway: {name}"
    assert f"1 of them {words}" in slipway.told("status")
    asked = ["so it may be somebody else's. Cancel it?"]

    def no(question: str) -> bool:
        assert question.endswith(asked.pop())
        raise click.Abort

    monkeypatch.setattr(jobs, "ask", no)
    slipway.told("cancel", name, code=1)
    assert slipway.json("status", name, "--json")["state"] == "waiting"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    slipway.told("cancel", name)  # no question to AWS for a job of this machine
    assert slipway.json("status", name, "--json")["state"] == "failed"


def test_explain_says_in_a_sentence_why_a_job_waits(yard_shell: RunningYard, slipway: Slipway) -> None:
    reason = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Service cannot fulfill the capacity requested"
    job_as(yard_shell, status="RUNNABLE", statusReason=reason)
    told = slipway.json("explain", "bert", "--json")
    assert told["sentence"].startswith("bert-012345678901 waits: AWS has too few free machines")
    assert told["fix"]
    assert reason in told["evidence"]


def test_a_job_whose_cluster_was_destroyed_is_told_where_it_ran(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    """BI-180."""
    job = slipway.json(*SUBMIT, "--json")
    yard_shell.client("ssm").delete_parameter(Name=parameter_name("dl1"))
    for text in (job["name"], job["id"]):
        err = slipway.told("explain", text, "--region", REGION, code=1)
        assert f"error: {job['name']} was submitted to dl1 as {job['id']}, and no deployed cluster" in err
        assert f"aws batch describe-jobs --jobs {job['id']}" in err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        *((f"{command} gpt2", 1, "there is no job 'gpt2'") for command in ("status", "logs", "cancel")),
        ("explain gpt2", 1, "there is no job 'gpt2'"),
        (
            "logs",
            1,
            "there is no job yet, or AWS has forgotten it\nhint: start one: slipway run, or slipway submit\n",
        ),
        (
            "submit bert_pretrain --on dl2 --nodes 1",
            1,
            "no target is called 'dl2'\nhint: did you mean dl1?\n",
        ),
        ("submit bert --on dl1 --nodes 1", 2, "there is no recipe 'bert'\nhint: "),
    ],
)
def test_what_is_not_there_is_told_in_a_line_with_what_is(
    slipway: Slipway, words: str, code: int, said: str
) -> None:
    assert slipway.refused(*words.split(), code=code).startswith(f"error: {said}")
