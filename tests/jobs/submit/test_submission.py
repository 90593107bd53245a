"""A job is submitted exactly once, whatever happens to the request, the answer, the machine or the user."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slipway.jobs.cloud import aws
from slipway.jobs.platforms.batch import platform
from slipway.jobs.platforms.batch.request import BatchRequest
from slipway.jobs.platforms.sending import DEADLINE_SECONDS, NotSubmitted, Unsettled, Waiting
from slipway.jobs.submit.preparing import prepare
from slipway.jobs.submit.submission import Consent, Submitted, submit_prepared
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import Job
from slipway.jobs.words.targets import BatchTarget
from slipway.yard.endpoint import control
from slipway.yard.gateway.faults import Fault, FaultKind, script, scripted, unscript
from tests.jobs.deployed import deploy_target, job_names
from tests.yard.accounts import raise_quotas
from tests.yard.conftest import RunningYard

MANY = int(os.environ.get("MANY_JOBS", "5000"))
SUBMITTERS, BURST, RATE = 32, 50, 50  # the calls that AWS Batch takes at once, and the jobs in a second
JOB = Job(name="bert", recipe="bert_pretrain", nodes=2, settings={"size": "tiny"})

Submit = Callable[..., Submitted]


class Clock:
    """Pauses take no time, but move the clock by `pace` times their length."""

    def __init__(self, pace: float = 1) -> None:
        self.seconds, self._pace = 0.0, pace
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds * self._pace

    def waiting(self) -> Waiting:
        return Waiting(pause=self.pause, now=lambda: self.seconds, share=lambda: 1.0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def submit(clock: Clock) -> Submit:
    def submit(job: Job = JOB, *, again: bool = False) -> Submitted:
        return submit_prepared(prepare(job, "dl1"), Consent(again=again), waiting=clock.waiting())

    return submit


def fail(yard: RunningYard, kind: FaultKind, times: int | None = 1, operation: str = "SubmitJob") -> None:
    script(yard, Fault(service="batch", operation=operation, kind=kind, times=times))


def test_the_same_job_again_is_the_one_that_exists_on_any_machine_and_again_is_one_more_each_time(
    yard_shell: RunningYard,
    target: BatchTarget,
    submit: Submit,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = submit(), submit()
    assert (first.existed, second.existed, second.job_id) == (False, True, first.job_id)
    assert job_names(yard_shell, target) == [first.prepared.name]
    with monkeypatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
        assert submit().job_id == first.job_id
    assert len({first.job_id, submit(again=True).job_id, submit(again=True).job_id}) == 3
    assert len(job_names(yard_shell, target)) == 3
    control(yard_shell, "POST", "/reset")
    raise_quotas(yard_shell)
    deploy_target(yard_shell)
    assert not submit().existed, "a new yard has none of the jobs of the last"


def test_a_repeat_says_that_it_starts_from_the_beginning_and_where_the_last_one_saved(
    yard_shell: RunningYard, target: BatchTarget
) -> None:
    def names(job: Job) -> tuple[str, list[str]]:
        said: list[str] = []
        sent = submit_prepared(prepare(job, "dl1"), Consent(again=True), say=said.append)
        return sent.prepared.name, [words for words in said if "from the beginning" in words]

    first, second = names(JOB), names(JOB)
    assert first[1] == []
    resumes = f"--checkpoints checkpoints/{first[0]} resumes {first[0]} instead"
    assert second[1] == [f"{second[0]} starts from the beginning; {resumes}"]
    assert f"checkpoints/{second[0]} " in names(JOB)[1][0]
    kept = replace(JOB, checkpoints="s3://bucket/kept")
    assert [names(kept)[1], names(kept)[1]] == [[], []], "it resumes by itself"


def test_a_lost_answer_makes_no_second_job(
    yard_shell: RunningYard, target: BatchTarget, submit: Submit
) -> None:
    fail(yard_shell, FaultKind.DROP_RESPONSE)
    submitted = submit()
    assert scripted(yard_shell)[0]["struck"] == 1
    assert job_names(yard_shell, target) == [submitted.prepared.name]
    assert submit().job_id == submitted.job_id


def test_a_server_error_is_looked_into_before_the_job_is_sent_again(
    yard_shell: RunningYard, target: BatchTarget, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str | None] = []
    find = platform.find_job_id

    def look(name: str, where: BatchTarget) -> str | None:
        looks.append(find(name, where))
        return looks[-1]

    monkeypatch.setattr(platform, "find_job_id", look)
    fail(yard_shell, FaultKind.SERVER_ERROR, times=2)
    submitted = submit()
    assert job_names(yard_shell, target) == [submitted.prepared.name]
    assert len(looks) == 1 + 2 * 3  # before anything is sent, and three times after each error


def test_throttling_is_waited_out_longer_each_time(
    yard_shell: RunningYard, target: BatchTarget, clock: Clock
) -> None:
    fail(yard_shell, FaultKind.THROTTLE, times=6)
    said: list[str] = []
    submit_prepared(prepare(JOB, "dl1"), waiting=clock.waiting(), say=said.append)
    assert clock.pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 20.0]
    assert len(said) == 6
    assert "it is tried again, for at most 120 more seconds" in said[0]
    assert "for at most 89 more seconds" in said[5]
    assert len(job_names(yard_shell, target)) == 1


def test_what_is_throttled_for_too_long_was_not_submitted_and_can_be_later(
    yard_shell: RunningYard, target: BatchTarget, submit: Submit, clock: Clock
) -> None:
    fail(yard_shell, FaultKind.THROTTLE, times=None)
    with pytest.raises(NotSubmitted, match=f"did not take job 'bert-.*' within {DEADLINE_SECONDS:.0f} s"):
        submit()
    assert clock.seconds <= DEADLINE_SECONDS
    unscript(yard_shell)
    assert not submit().existed


def test_what_cannot_be_settled_is_told_and_settled_by_the_next_command(
    yard_shell: RunningYard, target: BatchTarget, submit: Submit
) -> None:
    """The answer is lost, and so is the view of what there is."""
    prepared = prepare(JOB, "dl1")
    fail(yard_shell, FaultKind.DROP_RESPONSE)
    listed = platform.find_job_id
    calls: list[str] = []

    def find(name: str, where: BatchTarget) -> str | None:
        calls.append(name)
        if len(calls) > 1:
            fail(yard_shell, FaultKind.THROTTLE, times=None, operation="ListJobs")
        return listed(name, where)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(platform, "find_job_id", find)
        patched.setattr(aws, "DEADLINE_SECONDS", 0.0)
        with pytest.raises(Unsettled, match="it is not known whether AWS Batch took job"):
            submit_prepared(prepared)
    unscript(yard_shell)
    assert submit().existed
    assert len(job_names(yard_shell, target)) == 1


@pytest.mark.parametrize(("moment", "again"), [("before", False), ("after", False), ("after", True)])
def test_an_interruption_at_any_moment_leaves_one_job_after_the_next_command(
    yard_shell: RunningYard,
    target: BatchTarget,
    submit: Submit,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    again: bool,
) -> None:
    if again:
        submit()
    batch = aws.sender("batch", target.region)
    send = batch.submit_job

    def interrupted(**request: Any) -> None:
        if moment == "after":
            send(**request)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(batch, "submit_job", interrupted)
        with pytest.raises(KeyboardInterrupt):
            submit(again=again)
    submitted = submit(again=again)
    assert submitted.existed == (moment == "after")
    assert len(job_names(yard_shell, target)) == 1 + again


def test_an_interrupted_loop_of_jobs_is_finished_by_running_it_again(
    yard_shell: RunningYard, target: BatchTarget, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [
        Job(name="bert", recipe="bert_pretrain", nodes=1, settings={"size": "tiny", "seed": f"{seed}"})
        for seed in range(5)
    ]
    for job in jobs[:3]:
        submit(job)
    assert [submit(job).existed for job in jobs] == [True, True, True, False, False]
    assert len(job_names(yard_shell, target)) == 5


def test_the_intent_is_on_the_disk_before_anything_is_sent(
    target: BatchTarget, submit: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[list[str]] = []

    def look(**_: Any) -> None:
        written.append([path.read_text() for path in tmp_path.rglob("*.json")])
        raise KeyboardInterrupt

    monkeypatch.setattr(aws.sender("batch", target.region), "submit_job", look)
    with pytest.raises(KeyboardInterrupt):
        submit()
    assert '"job_id": null' in written[0][0]


def test_what_batch_refuses_leaves_no_intent(target: BatchTarget, clock: Clock, tmp_path: Path) -> None:
    prepared = prepare(JOB, "dl1")
    assert isinstance(prepared.request, BatchRequest)
    request = BatchRequest(submit={**prepared.request.submit, "jobDefinition": "nowhere:1"})
    with pytest.raises(ClientError):
        submit_prepared(replace(prepared, request=request), waiting=clock.waiting())
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_every_job_is_submitted_once_while_aws_throttles_fails_and_loses_answers(
    yard_shell: RunningYard, target: BatchTarget, clock: Clock, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F41, F45."""
    monkeypatch.setattr(aws, "share", lambda: 0.0)
    faults = {"throttling": 4, "server-errors": 15, "lost-answers": 40}
    control(yard_shell, "POST", "/switches", {"values": faults, "seed": seed})
    names: list[str] = []
    struck: dict[str, int] = {}
    while len(names) < 8 or not all(struck[name] for name in faults):
        assert len(names) < 80, struck
        names.append(submit_at_last(replace(JOB, name=f"bert{len(names)}"), clock))
        struck = {row["name"]: row["struck"] for row in control(yard_shell, "GET", "/switches")["switches"]}
    control(yard_shell, "POST", "/switches", {"values": dict.fromkeys(faults, 0)})
    assert sorted(job_names(yard_shell, target)) == sorted(names)


@pytest.mark.long
@pytest.mark.timeout(3600)  # 17 minutes beside much else
def test_many_jobs_are_submitted_once_each_at_the_rate_of_aws(
    yard_shell: RunningYard, target: BatchTarget
) -> None:
    """F45: 5,000 jobs of 32 submitters at once, and AWS takes 50 a second, after 50 that it takes at once."""
    control(yard_shell, "POST", "/switches", {"values": {"throttling": 1}, "seed": 1})

    def submit(number: int) -> str:
        return submit_prepared(prepare(replace(JOB, name=f"bert{number}"), "dl1")).prepared.name

    with ThreadPoolExecutor(SUBMITTERS) as pool:
        names = list(pool.map(submit, range(MANY)))
    struck = {row["name"]: row["struck"] for row in control(yard_shell, "GET", "/switches")["switches"]}
    control(yard_shell, "POST", "/switches", {"values": {"throttling": 0}})
    assert struck["throttling"] > 0
    assert sorted(job_names(yard_shell, target)) == sorted(names)
    filters = [{"name": "AFTER_CREATED_AT", "values": ["0"]}]
    pages = yard_shell.client("batch").get_paginator("list_jobs")
    found = pages.paginate(jobQueue=target.queue_arn, filters=filters).search("jobSummaryList[].createdAt")
    taken = sorted(found)
    seconds = [late - soon for soon, late in zip(taken, taken[BURST + RATE :], strict=False)]
    assert min(seconds) > 900, "more than a full bucket and its filling within a second"
    assert taken[-1] - taken[0] > (MANY - BURST) / RATE * 900


def submit_at_last(job: Job, clock: Clock) -> str:
    """Repeat the command, as its hint says, until it says that the job is submitted."""
    for _ in range(50):
        try:
            submitted = submit_prepared(prepare(job, "dl1"), waiting=clock.waiting())
        except (SlipwayError, ClientError):
            continue
        return submitted.prepared.name
    raise AssertionError("AWS never took it")
