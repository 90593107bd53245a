"""A command of Systems Manager is read as a run with times, exit code and cost, or what is unknown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore import xform_name
from botocore.stub import Stubber

from slipway.jobs.cloud.aws import Unanswered, why_later
from slipway.jobs.platforms import on_clusters
from slipway.jobs.platforms.mpi import main_node, runs
from slipway.jobs.platforms.mpi.explain import _DETAILS, _failed, _waiting
from slipway.jobs.platforms.mpi.runs import KnownCommand, read_run
from slipway.jobs.platforms.platform import platform_of
from slipway.jobs.words.errors import NoAnswer, SlipwayError
from slipway.jobs.words.run import JobState, Run
from slipway.jobs.words.targets import MpiTarget
from slipway.yard.machines.memory import WAITS
from tests.jobs.platforms.mpi.test_platform import ended, submit, with_document
from tests.jobs.words.test_mpi import JOB
from tests.jobs.words.test_targets import MPI_TARGET
from tests.yard.machines.hosts.conftest import Site

JOB_ID = "11111111-2222-3333-4444-555555555555"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
COMMAND = {"CommandId": "c-1", "Comment": JOB.name, "Status": "InProgress", "RequestedDateTime": NOON}


def run_of(now: datetime = NOON + timedelta(hours=2), **invocation: Any) -> Run:
    return read_run(KnownCommand(command=COMMAND, invocation=invocation, job=JOB), MPI_TARGET, now)


STARTED = {"RequestedDateTime": NOON, "InstanceIds": ["i-1"]}
BEGAN = "2026-11-21T12:00:00Z"


@pytest.mark.parametrize(
    ("told", "state", "hours", "code"),
    [
        ({"Status": "InProgress", "ResponseCode": -1}, JobState.RUNNING, 2.0, None),
        (
            {"Status": "Success", "ExecutionEndDateTime": "2026-11-21T12:30:00.000Z", "ResponseCode": 0},
            JobState.SUCCEEDED,
            0.5,
            0,
        ),
        ({"Status": "Pending", "ExecutionStartDateTime": ""}, JobState.WAITING, 0.0, None),
    ],
    ids=["until now", "that ended", "that no node took yet"],
)
def test_a_run_costs_what_its_nodes_cost(
    told: dict[str, Any], state: JobState, hours: float, code: int | None
) -> None:
    run = run_of(**{"ExecutionStartDateTime": BEGAN, **told})
    assert (run.state, run.hours or 0.0, run.exit_code) == (state, hours, code)
    assert run.cost.usd == pytest.approx(4 * hours * 2.72)
    by_hand = read_run(KnownCommand(command=COMMAND, invocation={}, job=None), MPI_TARGET)
    assert (by_hand.recipe, by_hand.nodes, by_hand.image, by_hand.cost.usd) == (None, None, None, None)


def test_a_command_that_this_machine_cannot_hold_yet_says_so() -> None:
    run = run_of(Status="Pending", StatusDetails="Delayed", StandardErrorContent=WAITS)
    assert (run.state, run.reason) == (JobState.WAITING, WAITS)
    means, fix = _waiting(run)
    assert (
        means == "waits: this machine has too little free memory for it next to the jobs that run in the yard"
    )
    assert "--processes-per-node 1" in fix


def test_a_command_that_is_forgotten_or_of_another_document_is_no_job(ssm: Stubber) -> None:
    """The command that cancels a job has an id, too."""
    for _ in range(2):
        ssm.add_client_error("list_commands", "InvalidCommandId")
    assert not runs.is_known(JOB_ID, MPI_TARGET)
    assert runs.refresh(JOB_ID, MPI_TARGET) is None
    stop = {"CommandId": JOB_ID, "DocumentName": MPI_TARGET.stop_document}
    ssm.add_response("list_commands", {"Commands": [stop]})
    assert not runs.is_known(JOB_ID, MPI_TARGET)


def test_who_gets_no_answer_does_not_take_a_job_for_forgotten(ssm: Stubber) -> None:
    """Otherwise it would be submitted a second time."""
    ssm.add_client_error("list_commands", "AccessDeniedException")
    with pytest.raises(SlipwayError, match="ssm:ListCommands gave no answer"):
        runs.is_known(JOB_ID, MPI_TARGET)


@pytest.mark.parametrize("silent", ["get_command_invocation", "describe_instances"])
def test_a_job_does_not_count_as_failed_while_nobody_knows_whether_its_machine_was_lost(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan would give it up, with the jobs that depend on it, instead of sending it again."""
    told = {"CommandId": JOB_ID, "DocumentName": MPI_TARGET.run_document, "Status": "Failed", **STARTED}
    answers = {"list_commands": {"Commands": [told]}, "get_command_invocation": {"Status": "Failed"}}

    def ask(client: object, operation: str, **_: object) -> object:
        method = xform_name(operation)
        lost = Unanswered(action=operation, code="ServiceUnavailable", message="", passes=True)
        return lost if method == silent else answers.get(method, Unanswered(action="", code="", message=""))

    for module in (runs, main_node, on_clusters):
        monkeypatch.setattr(module, "ask", ask)
        monkeypatch.setattr(module, "reader", lambda *_: None)
    with pytest.raises(NoAnswer) as caught:
        runs.refresh(JOB_ID, MPI_TARGET)
    assert why_later(caught.value)


@pytest.mark.parametrize("details", _DETAILS)
def test_every_way_in_which_a_command_ends_by_itself_is_explained(details: str) -> None:
    run = run_of(Status="TimedOut", StatusDetails=details)
    means, fix = _failed(run, [])
    assert means == f"failed: {_DETAILS[details][0]}"
    assert fix
    other = run_of(Status="TimedOut", StatusDetails="Delivery Timed Out")  # as the console writes it
    assert _failed(other, [])[0] == "failed: its main node did not accept it in time"
    unknown = run_of(Status="Failed", StatusDetails="Failed", ResponseCode=42)
    assert _failed(unknown, []) == ("failed with exit code 42", "look at its log: slipway logs {job}")


# Why a job of an MPI cluster failed, in its nodes' words: ranks, lost hosts, attempts.
BADLY = [
    "echo '[1] error: no such task' >&2",
    "echo '[run] error: glue ended with exit code 7' >&2",
    "exit 7",
]
GONE = "host ip-10-9-9-9 does not answer: timed out"


@with_document(BADLY)
def test_a_failed_job_is_explained_by_what_its_ranks_said(site: Site, target: MpiTarget) -> None:
    found = ended(site, target, submit(target).job_id)
    assert (found.run.state, found.run.exit_code, found.run.reason) == (JobState.FAILED, 7, "no such task")
    told = platform_of(target).explain(found)
    assert "exit code 7" in told.sentence
    assert any("no such task" in words for words in told.evidence)


def ends(code: int, *errors: str) -> list[str]:
    return [*(f"echo '[run] error: {error}' >&2" for error in errors), f"exit {code}"]


@pytest.mark.parametrize(
    ("target", "means", "reason"),
    [
        (ends(85, "x ended with exit code 85, host h was lost"), "host h was lost", "host h was lost"),
        (
            ends(85, f"{GONE}; it was not replaced", "x ended with exit code 85, attempt 1 of 3"),
            "host ip-10-9-9-9 was lost in attempt 1 of 3",
            f"{GONE}; it was not replaced",
        ),
        (ends(7, GONE, "x ended with exit code 7, attempt 2 of 2"), "with exit code 7", "attempt 2 of 2"),
    ],
    indirect=["target"],
    ids=["lost", "not replaced", "lost earlier"],
)
def test_a_lost_host_is_named_where_it_ended_the_job_and_attempts_are_counted_as_the_log_counts_them(
    site: Site, target: MpiTarget, means: str, reason: str
) -> None:
    found = ended(site, target, submit(target).job_id)
    assert platform_of(target).explain(found).sentence.endswith(f" {means}")
    assert str(found.run.reason).endswith(reason)
