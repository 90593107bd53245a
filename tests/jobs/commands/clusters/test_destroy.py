"""`slipway destroy`: a cluster goes without taking a job with it, and says what stays."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from slipway.yard.gateway.faults import Fault, FaultKind, script, unscript
from tests.jobs.commands.clusters.test_empty import BUCKET, deploy, versions
from tests.jobs.conftest import Slipway
from tests.yard.conftest import RunningYard

SUMMARY = {"jobId": "1a1b", "jobName": "bert-1"}
# Deletes the stacks that it is told, as the CDK's own does, without a synthesis.
CDK = """#!{python}
import sys
from slipway.jobs.aws import client
assert sys.argv[1] == "destroy", sys.argv
for name in [word for word in sys.argv[2:] if not word.startswith("-")]:
    client("cloudformation").delete_stack(StackName=name)
    client("cloudformation").get_waiter("stack_delete_complete").wait(
        StackName=name, WaiterConfig={{"Delay": 0.05, "MaxAttempts": 400}}
    )
"""


@pytest.fixture(autouse=True)
def cdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "cdk"
    program.write_text(CDK.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def with_a_job(yard: RunningYard, *statuses: str) -> None:
    """Let Batch list a job, in one status after the other."""
    answers: dict[str, list[dict[str, Any]]] = {
        "DescribeJobQueues": [{"jobQueues": [{"jobQueueName": "dl1", "state": "ENABLED"}]}],
        "ListJobs": [{"jobSummaryList": [SUMMARY]}],
        "DescribeJobs": [{"jobs": [{**SUMMARY, "status": status}]} for status in statuses],
        "TerminateJob": [{}],
    }
    for operation, body in answers.items():
        kind = FaultKind.RESPOND
        script(yard, Fault(service="batch", operation=operation, kind=kind, body=body, times=None))


def stacks(yard: RunningYard) -> list[str]:
    found = yard.client("cloudformation").describe_stacks()["Stacks"]
    return [each["StackName"] for each in found]


def test_a_cluster_that_trains_is_not_destroyed_and_one_sentence_says_what_to_do(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    deploy(yard_shell, "Delete")
    with_a_job(yard_shell, "RUNNING")
    code, _, err = slipway("destroy", "dl1", "--yes")
    unscript(yard_shell)
    assert code == 1
    assert "error: bert-1 of dl1 has not ended, so nothing was destroyed" in err
    assert "slipway destroy dl1 --cancel" in err
    assert (stacks(yard_shell), versions(yard_shell)) == (["dl1-storage"], 2)


def test_a_cancelled_job_is_waited_for_before_anything_goes(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    deploy(yard_shell, "Delete")
    with_a_job(yard_shell, *["RUNNING"] * 4, "FAILED")
    code, _, err = slipway("destroy", "dl1", "--cancel", "--yes")
    unscript(yard_shell)
    assert code == 0, err
    assert "bert-1 was cancelled; its checkpoints go with the cluster" in err
    assert "dl1 is destroyed; 0 of its machines run" in err
    assert stacks(yard_shell) == []


def test_data_that_is_kept_stays_and_its_cost_is_named(yard_shell: RunningYard, slipway: Slipway) -> None:
    deploy(yard_shell, "Retain")
    code, _, err = slipway("destroy", "dl1", "--yes")
    assert code == 0, err
    assert "its data stays, and costs: slipway leftovers dl1" in err
    assert [bucket["Name"] for bucket in yard_shell.client("s3").list_buckets()["Buckets"]] == [BUCKET]
    assert versions(yard_shell) == 2


def test_a_destroy_that_stopped_half_way_is_finished(yard_shell: RunningYard, slipway: Slipway) -> None:
    deploy(yard_shell, "Retain")
    yard_shell.client("ssm").delete_parameter(Name="/slipway/targets/dl1")
    code, _, err = slipway("destroy", "dl1", "--yes")
    assert code == 0, err
    assert "what was left of dl1 is destroyed" in err
    assert stacks(yard_shell) == []


def test_nobody_is_taken_to_have_typed_the_name(yard_shell: RunningYard, slipway: Slipway) -> None:
    deploy(yard_shell, "Delete")
    code, _, err = slipway("destroy", "dl1")
    assert code == 1
    assert "without a terminal nobody can be asked" in err
    assert stacks(yard_shell) == ["dl1-storage"]
