"""F44: machines that submit the same job in the same instant leave one job, and all are told which."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Mapping
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from slipway.jobs.cloud import aws
from slipway.jobs.platforms.batch import platform, runs
from slipway.jobs.platforms.batch.runs import SubmittedTwice
from slipway.jobs.submit.preparing import prepare
from slipway.jobs.submit.submission import Submitted, submit_prepared
from slipway.jobs.words.job import Job
from slipway.jobs.words.targets import BatchTarget
from slipway.yard.gateway.faults import Fault, FaultKind, script
from tests.jobs.conftest import Slipway
from tests.jobs.submit.test_submission import Clock
from tests.yard.conftest import RunningYard

JOB = Job(name="bert", recipe="bert_pretrain", nodes=2, settings={"size": "tiny"})
MACHINES = 3
PATIENCE_S = 60


def jobs_of(yard: RunningYard, target: BatchTarget) -> dict[str, str]:
    """Return by id the reason of each job that ended, and the status of each other one."""
    filters = [{"name": "AFTER_CREATED_AT", "values": ["0"]}]
    listed = yard.client("batch").list_jobs(jobQueue=target.queue_arn, filters=filters)["jobSummaryList"]
    return {
        each["jobId"]: each["statusReason"] if each["status"] == "FAILED" else each["status"]
        for each in listed
    }


def machine(state: str, ready: Barrier, said: Any) -> None:
    """Simulate a machine with its own process and journal, which looks before any machine sends."""
    os.environ["XDG_STATE_HOME"] = state
    send = platform.send

    def together(*arguments: Any) -> str:
        ready.wait(PATIENCE_S)
        return send(*arguments)

    with patch.object(platform, "send", together):
        submitted = submit_prepared(prepare(JOB, "dl1"))
    (journal,) = Path(state).rglob("*.json")
    said.put((submitted.job_id, submitted.existed, json.loads(journal.read_text())["job_id"]))


def test_machines_that_send_at_once_leave_one_job_and_agree_on_it(
    yard_shell: RunningYard, target: BatchTarget, tmp_path: Path
) -> None:
    start = multiprocessing.get_context("spawn")
    ready, said = start.Barrier(MACHINES), start.Queue()
    machines = [
        start.Process(target=machine, args=(str(tmp_path / f"{number}"), ready, said))
        for number in range(MACHINES)
    ]
    for each in machines:
        each.start()
    told = [said.get(timeout=PATIENCE_S) for _ in machines]
    for each in machines:
        each.join(PATIENCE_S)
    (kept,) = {job_id for job_id, _, _ in told}
    assert {noted for _, _, noted in told} == {kept}
    assert sorted(existed for _, existed, _ in told) == [False, True, True]
    found = jobs_of(yard_shell, target)
    assert len(found) == MACHINES
    assert found.pop(kept) in ("SUBMITTED", "PENDING", "RUNNABLE")
    assert set(found.values()) == {f"submitted twice in the same instant; kept is {kept}"}


Meanwhile = Callable[[Callable[[], Any]], None]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Act as another machine after this one has looked and before it sends."""

    def meanwhile(act: Callable[[], Any]) -> None:
        send = platform.send

        def late(*arguments: Any) -> str:
            act()
            return send(*arguments)

        monkeypatch.setattr(platform, "send", late)

    return meanwhile


def elsewhere(target: BatchTarget) -> str:
    """Send the same job from a machine that looked at the same time."""
    request: Any = prepare(JOB, "dl1").request
    return str(aws.client("batch", target.region).submit_job(**request.submit)["jobId"])


def submit(clock: Clock, says: list[str] | None = None) -> Submitted:
    say = (says if says is not None else []).append
    return submit_prepared(prepare(JOB, "dl1"), waiting=clock.waiting(), say=say)


def test_who_sent_later_ends_its_own_and_says_which_one_stays(
    yard_shell: RunningYard, target: BatchTarget, meanwhile: Meanwhile, slipway: Slipway
) -> None:
    other: list[str] = []
    says: list[str] = []
    meanwhile(lambda: other.append(elsewhere(target)))
    submitted = submit(Clock(), says)
    assert (submitted.job_id, submitted.existed) == (other[0], True)
    (ended,) = jobs_of(yard_shell, target).keys() - {other[0]}
    name = submitted.prepared.name
    assert says == [f"another machine submitted {name} in the same instant, as {other[0]}; {ended} was ended"]
    # The name leads to one job; the other is found by its id, and says what it is.
    assert slipway.json("status", name, "--json")["id"] == other[0]
    assert "and that one was kept" in slipway("explain", ended)[1]


def test_who_sees_a_later_one_ends_it_though_its_sender_died(
    yard_shell: RunningYard, target: BatchTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, other = platform.send, []

    def early(*arguments: Any) -> str:
        sent = send(*arguments)
        other.append(elsewhere(target))
        return sent

    monkeypatch.setattr(platform, "send", early)
    submitted = submit(Clock())
    assert not submitted.existed
    assert jobs_of(yard_shell, target)[other[0]].endswith(f"kept is {submitted.job_id}")


def test_a_list_that_is_behind_is_looked_at_again(
    yard_shell: RunningYard, target: BatchTarget, meanwhile: Meanwhile, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(lambda: elsewhere(target))
    find, looks = runs.find_jobs, []

    def behind(name: str, where: BatchTarget) -> list[Mapping[str, Any]]:
        looks.append(name)
        return [] if len(looks) == 1 else find(name, where)

    monkeypatch.setattr(runs, "find_jobs", behind)
    clock = Clock()
    assert submit(clock).existed
    assert clock.pauses == [2.0]


def test_a_job_that_was_taken_is_told_though_nobody_can_look(
    yard_shell: RunningYard, target: BatchTarget, meanwhile: Meanwhile
) -> None:
    refused = Fault(
        service="batch",
        operation="ListJobs",
        kind=FaultKind.SERVER_ERROR,
        times=None,
    )
    meanwhile(lambda: script(yard_shell, refused))
    says: list[str] = []
    submitted = submit(Clock(), says)
    assert submitted.job_id
    assert "may have submitted" in says[0]


def test_a_second_job_that_cannot_be_ended_is_an_error_that_names_it(
    yard_shell: RunningYard, target: BatchTarget, meanwhile: Meanwhile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws, "DEADLINE_SECONDS", 2.0)
    other: list[str] = []
    meanwhile(lambda: other.append(elsewhere(target)))
    script(
        yard_shell,
        Fault(service="batch", operation="TerminateJob", kind=FaultKind.SERVER_ERROR, times=None),
    )
    with pytest.raises(SubmittedTwice, match="could not be ended") as refusal:
        submit(Clock())
    (ours,) = jobs_of(yard_shell, target).keys() - {other[0]}
    assert refusal.value.hint == f"slipway cancel {ours}; {other[0]} is the same job"
