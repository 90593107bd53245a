"""One sentence says why a job waits or failed: AWS's known reasons come with a fix, others unchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway.jobs.platforms.batch.explain import explain
from slipway.jobs.platforms.batch.runs import Environment, JobFacts, read_run
from slipway.jobs.platforms.reasons import REASONS
from slipway.jobs.words.run import EXIT_CODES, Attempt, JobState
from slipway.yard.machines.memory import WAITS
from tests.jobs.words.test_targets import TARGET

WELL = Environment(
    name="dl1-Pool", state="ENABLED", status="VALID", reason="Compute environment is available"
)
DATA = read_run({"jobId": "9f", "jobName": "data", "status": "RUNNING"}, TARGET)


def facts(status: str = "RUNNABLE", reason: str = "", **changes: Any) -> JobFacts:
    detail = {
        "jobId": "0a1b",
        "jobName": "bert",
        "status": status,
        "statusReason": reason,
        "tags": {"slipway:nodes": "2"},
    }
    known: dict[str, Any] = {
        "run": read_run(detail, TARGET),
        "image": "gaudi",
        "said": (reason,) if reason else (),
        "exit_code": None,
        "depends_on": (),
        "ahead": 0,
        "busy_nodes": 0,
        "queue_state": "ENABLED",
        "environments": (WELL,),
        "scaling_failure": None,
        "unanswered": (),
    }
    return JobFacts(**{**known, **changes})


# Reasons in the words of AWS Batch's and ECS's user guides.
@pytest.mark.parametrize(
    ("reason", "means", "fix"),
    [
        (
            (
                "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Service cannot fulfill the capacity requested for "
                "instance type [dl1.24xlarge]"
            ),
            "too few free machines of this type",
            "another zone",
        ),
        (WAITS, "this machine has too little free memory", "--processes-per-node 1"),
        (
            (
                "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - CE(s) associated with the job queue "
                "cannot meet the CPU requirement of the job."
            ),
            "more nodes than the cluster may have",
            "max_nodes",
        ),
        (
            (
                "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job resource requirement (vCPU/memory/GPU) "
                "is higher than that can be met by the CE(s) attached to the job queue."
            ),
            "no instance of the cluster can give",
            "deploy the cluster again",
        ),
        (
            "MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS - Batch has a permission issue with the service role.",
            "service role lacks a permission",
            "service-linked role",
        ),
        (
            "ACTION_REQUIRED - CE(s) associated with the job queue are invalid.",
            "compute environment is invalid",
            "deploy again",
        ),
        (
            "UNDETERMINED - Batch job is blocked, root cause is undetermined.",
            "does not know why",
            "preflight",
        ),
    ],
)
def test_why_a_job_waits_is_said_with_what_to_do(reason: str, means: str, fix: str) -> None:
    told = explain(facts(reason=reason))
    assert told.sentence.startswith("bert waits: ")
    assert means in told.sentence
    assert fix in told.fix
    assert told.evidence == (reason,)


@pytest.mark.parametrize(
    ("reason", "means", "fix"),
    [
        (
            "CannotPullContainerError: pull image manifest has been retried 5 time(s): dial tcp: i/o timeout",
            "could not pull",
            "slipway image build gaudi",
        ),
        ("Host EC2 (instance i-0123456789abcdef0) terminated.", "its machine was lost", "--again"),
        ("OutOfMemoryError: Container killed due to memory usage", "more memory", "micro_batch"),
        ("Job attempt duration exceeded timeout", "longer than its timeout", "--timeout-hours"),
        ("ResourceInitializationError: failed to validate logger args", "could not set up", "preflight dl1"),
        (
            "cancelled with slipway cancel",
            "somebody cancelled it",
            "--again runs it once more; add --checkpoints checkpoints/bert to resume from what it saved",
        ),
        ("DockerTimeoutError: Could not transition to started", "could not start the container", "devices"),
        ("Dependent Job failed", "a job that it depends on failed", ""),
    ],
)
def test_why_a_job_failed_is_said_with_what_to_do(reason: str, means: str, fix: str) -> None:
    told = explain(facts("FAILED", reason))
    assert told.sentence.startswith("bert failed: ")
    assert means in told.sentence
    assert fix in told.fix


def test_a_job_that_its_queue_cancelled_is_told_so_and_why() -> None:
    reason = "Canceled by JobStateTimeLimit action due to reason: CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
    told = explain(facts("FAILED", reason))
    assert "cancelled by the time limit of its queue: AWS has too few free machines" in told.sentence


@pytest.mark.parametrize("code", sorted(EXIT_CODES))
def test_an_exit_code_is_explained_where_batch_says_nothing(code: int) -> None:
    told = explain(facts("FAILED", "Essential container in task exited", exit_code=code))
    assert told.sentence == f"bert failed: {EXIT_CODES[code].means} (exit code {code})"
    assert told.fix
    assert "{" not in told.fix


@pytest.mark.parametrize(
    ("made", "allowed", "said"),
    [
        (2, 2, "it asked for another attempt in attempt 2 of 2, the last (exit code 85)"),
        (1, 3, "it asked for another attempt in attempt 1 of 3 (exit code 85)"),
        (2, None, "it asked for another attempt in attempt 2 (exit code 85)"),
        (0, 2, "it asked for another attempt (exit code 85)"),
    ],
)
def test_an_attempt_is_called_the_last_where_batch_counted_all(
    made: int, allowed: int | None, said: str
) -> None:
    known = facts("FAILED", exit_code=85, allowed_attempts=allowed)
    ended = Attempt(started_at=None, stopped_at=None, exit_code=85, reason=None)
    run = replace(known.run, attempts=(ended,) * made)
    assert explain(replace(known, run=run)).sentence == f"bert failed: {said}"


def test_words_that_nobody_knows_are_passed_on_as_they_are() -> None:
    assert "says: The moon is full" in explain(facts(reason="The moon is full")).sentence
    assert "says: The moon is full" in explain(facts("FAILED", "The moon is full")).sentence
    assert "does not say why" in explain(facts("FAILED")).sentence
    assert "a state that Slipway does not know: HIBERNATING" in explain(facts("HIBERNATING")).sentence


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"depends_on": (DATA,)}, "bert waits for data (RUNNING) to succeed first"),
        ({"queue_state": "DISABLED"}, "bert waits because its queue is DISABLED"),
        (
            {"environments": (replace(WELL, status="INVALID", reason="no such role"),)},
            "bert waits because compute environment dl1-Pool is ENABLED and INVALID: no such role",
        ),
        (
            {"scaling_failure": "You have requested more vCPU capacity than your current vCPU limit of 0"},
            (
                "bert waits because no machine could be started: the account's quota of vCPUs leaves no "
                "room for the machines that it needs"
            ),
        ),
        ({"scaling_failure": "moon"}, "bert waits because no machine could be started: AWS says: moon"),
        ({"ahead": 1}, "bert waits for its turn: 1 job came before it"),
        (
            {"busy_nodes": 16},
            "bert waits for 2 nodes to start, which takes minutes; 16 nodes of the cluster are busy",
        ),
        ({}, "bert waits for 2 nodes to start, which takes minutes"),
    ],
)
def test_what_stands_before_a_job_is_said(changes: dict[str, Any], sentence: str) -> None:
    assert explain(facts(**changes)).sentence == sentence


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("STARTING", "bert has 2 nodes, which pull the image and start"),
        ("RUNNING", "bert runs on 2 nodes"),
        ("SUCCEEDED", "bert succeeded"),
    ],
)
def test_a_job_that_is_well_is_said_to_be(status: str, sentence: str) -> None:
    told = explain(facts(status))
    assert (told.sentence, told.fix) == (sentence, "")


def test_what_was_not_answered_is_named_and_so_is_the_last_error_of_the_log_alone() -> None:
    told = explain(facts(unanswered=("autoscaling:DescribeAutoScalingGroups",)))
    assert told.evidence == ("autoscaling:DescribeAutoScalingGroups gave no answer",)
    told = explain(facts("FAILED", exit_code=2, last_error="[0] error: no such dataset"))
    assert told.evidence == ("the log: [0] error: no such dataset",)
    told = explain(facts(said=("Host EC2 (instance i-1) terminated.",)))
    assert "its machine was lost" not in told.sentence, "earlier attempts are not why it waits now"


@pytest.mark.parametrize("reason", [*REASONS, *EXIT_CODES.values()], ids=lambda reason: reason.pattern[:30])
def test_every_fix_can_be_told_of_any_job(reason: Any) -> None:
    assert reason.fix.format(job="bert", target="dl1", image="gaudi", kept="x")


def test_a_job_whose_dependency_failed_is_told_which_one() -> None:
    done = read_run({"jobId": "1", "jobName": "vocabulary", "status": "SUCCEEDED"}, TARGET)
    failed = replace(DATA, state=JobState.FAILED, status="FAILED")
    told = explain(facts("FAILED", "Dependent Job failed", depends_on=(done, failed)))
    assert told.sentence == "bert failed before it started: it depends on data, which failed"
    assert told.fix == "slipway explain data"
