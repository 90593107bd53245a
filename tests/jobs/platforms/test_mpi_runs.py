"""What Systems Manager says of a command, read as a run: times, exit code, cost, and what is not known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.core.states import JobState
from jobs.platforms.mpi_explain import _DETAILS, _failed
from jobs.platforms.mpi_runs import read_run
from jobs.runs import Run
from tests.jobs.core.test_mpi_job import JOB
from tests.jobs.core.test_targets import MPI_TARGET

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
COMMAND = {"CommandId": "c-1", "Comment": JOB.name, "Status": "InProgress", "RequestedDateTime": NOON}


def run_of(now: datetime = NOON + timedelta(hours=2), **invocation: Any) -> Run:
    return read_run(COMMAND, invocation, JOB, MPI_TARGET, now=now)


def test_a_run_that_goes_on_costs_what_its_nodes_cost_until_now() -> None:
    run = run_of(Status="InProgress", ExecutionStartDateTime="2026-11-21T12:00:00Z", ResponseCode=-1)
    assert (run.state, run.hours, run.exit_code) == (JobState.RUNNING, 2.0, None)
    assert run.cost.usd == pytest.approx(4 * 2 * 2.72)


def test_a_run_that_ended_costs_what_it_took() -> None:
    run = run_of(
        Status="Success",
        ExecutionStartDateTime="2026-11-21T12:00:00.000Z",
        ExecutionEndDateTime="2026-11-21T12:30:00.000Z",
        ResponseCode=0,
    )
    assert (run.state, run.hours, run.exit_code) == (JobState.SUCCEEDED, 0.5, 0)
    assert run.stopped_at == NOON + timedelta(minutes=30)


def test_a_command_that_no_node_took_yet_waits_and_costs_nothing() -> None:
    run = run_of(Status="Pending", ExecutionStartDateTime="")
    assert (run.state, run.started_at, run.cost.usd) == (JobState.WAITING, None, 0.0)


def test_a_command_that_somebody_sent_by_hand_is_listed_with_what_is_known() -> None:
    run = read_run(COMMAND, {}, None, MPI_TARGET)
    assert (run.recipe, run.nodes, run.image, run.cost.usd) == (None, None, None, None)


@pytest.mark.parametrize("details", _DETAILS)
def test_every_way_in_which_a_command_ends_by_itself_is_explained(details: str) -> None:
    run = run_of(Status="TimedOut", StatusDetails=details)
    means, fix = _failed(run, [])
    assert means == f"failed: {_DETAILS[details][0]}"
    assert fix


def test_an_exit_code_that_no_table_knows_is_said() -> None:
    run = run_of(Status="Failed", StatusDetails="Failed", ResponseCode=42)
    assert _failed(run, []) == ("failed with exit code 42", "look at its log: slipway logs {job}")
