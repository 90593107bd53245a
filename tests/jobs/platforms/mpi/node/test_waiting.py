"""A job that waits for others begins when all succeeded, but not if one failed or takes too long."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from botocore.stub import Stubber

from slipway.jobs.platforms.mpi.node.lock import CannotRun, await_others
from slipway.jobs.words.mpi import LONGEST_SECONDS, MARGIN_SECONDS, MpiJob, begun_at
from tests.jobs.words.test_mpi import JOB

REGION = "us-east-1"
DATA = "11111111-2222-3333-4444-555555555555"
WAITING = replace(JOB, name="bert-1", waits_for=(DATA,))


def answer(ssm: Stubber, status: str) -> None:
    command = {"CommandId": DATA, "Comment": "data-1", "Status": status, "InstanceIds": []}
    ssm.add_response("list_commands", {"Commands": [command]}, {"CommandId": DATA})


def await_on_a_clock(job: MpiJob, pause_seconds: float | None = None) -> tuple[MpiJob, list[str]]:
    """Return the job as it begins, and its log; a pause moves only the test's clock."""
    said: list[str] = []
    clock = [0.0]

    def pause(seconds: float) -> None:
        clock[0] += pause_seconds or seconds

    return await_others(job, REGION, said.append, pause, lambda: clock[0]), said


def test_a_job_that_waits_for_none_begins_and_asks_nobody(ssm: Stubber) -> None:
    assert await_on_a_clock(JOB) == (JOB, [])


def test_it_begins_when_the_other_has_succeeded_and_its_log_says_when(ssm: Stubber) -> None:
    for status in ("Pending", "InProgress", "InProgress", "Success"):
        answer(ssm, status)
    before = datetime.now(UTC).replace(microsecond=0)
    job, said = await_on_a_clock(WAITING)
    assert job == WAITING
    waits = [f"waits for data-1 ({status}) to succeed first" for status in ("Pending", "InProgress")]
    assert said[:-1] == waits
    began = begun_at("\n".join(f"[run] {line}" for line in [*said, "2 hosts, 2 ranks each: a, b"]))
    assert began is not None
    assert before <= began <= datetime.now(UTC)


@pytest.mark.parametrize("status", ["Failed", "Cancelled", "TimedOut"])
def test_it_ends_with_the_name_of_one_that_failed(ssm: Stubber, status: str) -> None:
    answer(ssm, "InProgress")
    answer(ssm, status)
    with pytest.raises(CannotRun) as refusal:
        await_on_a_clock(WAITING)
    assert refusal.value.message == f"bert-1 depends on data-1, which failed ({status})"
    assert refusal.value.hint.startswith("slipway explain data-1")


def test_an_aws_that_does_not_answer_is_asked_again_and_one_that_has_forgotten_is_believed(
    ssm: Stubber,
) -> None:
    ssm.add_client_error("list_commands", "ThrottlingException")
    ssm.add_client_error("list_commands", "InvalidCommandId")
    with pytest.raises(CannotRun, match=f"depends on {DATA}, which failed .forgotten."):
        await_on_a_clock(WAITING)


def test_a_job_whose_turn_comes_late_gets_the_time_that_is_left_of_two_days(ssm: Stubber) -> None:
    """Its launchers then end it in time, and its ranks have saved."""
    for status in ("InProgress", "Success"):
        answer(ssm, status)
    longest = replace(WAITING, timeout_seconds=40 * 3600)
    job, said = await_on_a_clock(longest, pause_seconds=10 * 3600)
    left = 38 * 3600 - MARGIN_SECONDS
    assert (job.timeout_seconds, job.environment["SLIPWAY_TIMEOUT_SECONDS"]) == (left, str(left))
    assert f"may take {left} s an attempt, not {40 * 3600}" in said[-1]


def test_a_wait_that_leaves_no_time_ends_in_a_line(ssm: Stubber) -> None:
    for _ in range(2):
        answer(ssm, "InProgress")
    with pytest.raises(CannotRun, match=r"waited for data-1 .InProgress. as long as Systems Manager lets"):
        await_on_a_clock(WAITING, pause_seconds=LONGEST_SECONDS)


def test_a_log_that_names_no_moment_tells_of_no_beginning() -> None:
    assert begun_at("") is None
    assert begun_at("[run] begins at noon\n") is None
    assert begun_at("[0] [run] begins at 2026-11-22T12:00:00+00:00\n") is None
