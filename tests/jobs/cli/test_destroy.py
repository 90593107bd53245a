"""`slipway cluster destroy`: a cluster goes without taking a job with it, and says what stays."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from slipway.yard.gateway.faults import Fault, FaultKind, script, unscript
from tests.jobs.cli.test_empty import BUCKET, deploy, versions
from tests.jobs.conftest import Slipway
from tests.yard.conftest import RunningYard

SUMMARY = {"jobId": "1a1b", "jobName": "bert-1"}
# Writes what a synthesis would of the one stack, in a Stage, and deletes it where it is told that name.
CDK = """#!{python}
import json, sys
from pathlib import Path
from slipway.jobs.cloud.aws import client
if sys.argv[1] == "synth":
    stack = {{
        "type": "aws:cloudformation:stack",
        "environment": "aws://unknown-account/us-east-1",
        "properties": {{"stackName": "dl1-storage"}},
        "displayName": "Prod/dl1-storage",
    }}
    elsewhere = {{**stack, "environment": "aws://unknown-account/eu-west-1", "displayName": "Other"}}
    out = Path(sys.argv[sys.argv.index("--output") + 1])
    (out / "nested").mkdir()
    (out / "nested" / "manifest.json").write_text(json.dumps({{"artifacts": {{"a": stack, "b": elsewhere}}}}))
    nested = {{"type": "cdk:cloud-assembly", "properties": {{"directoryName": "nested"}}}}
    (out / "manifest.json").write_text(json.dumps({{"artifacts": {{"assembly-Prod": nested}}}}))
    sys.exit()
assert sys.argv[1:3] == ["destroy", "Prod/dl1-storage"], sys.argv
assert (Path(sys.argv[-1]) / "manifest.json").exists()
for name in ["dl1-storage"]:
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
    code, _, err = slipway("cluster", "destroy", "dl1", "--yes")
    unscript(yard_shell)
    assert code == 1
    assert "error: bert-1 of dl1 has not ended, so nothing was destroyed" in err
    assert "slipway cluster destroy dl1 --cancel" in err
    assert (stacks(yard_shell), versions(yard_shell)) == (["dl1-storage"], 2)


def test_a_cancelled_job_is_waited_for_before_anything_goes(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    deploy(yard_shell, "Delete")
    with_a_job(yard_shell, *["RUNNING"] * 4, "FAILED")
    code, _, err = slipway("cluster", "destroy", "dl1", "--cancel", "--yes")
    unscript(yard_shell)
    assert code == 0, err
    assert "bert-1 was cancelled; its checkpoints go with the cluster" in err
    assert "dl1 is destroyed; 0 of its machines run" in err
    assert stacks(yard_shell) == []


def test_data_that_is_kept_stays_and_its_cost_is_named(yard_shell: RunningYard, slipway: Slipway) -> None:
    deploy(yard_shell, "Retain")
    code, _, err = slipway("cluster", "destroy", "dl1", "--yes")
    assert code == 0, err
    assert "its data stays, and costs: slipway cluster leftovers dl1" in err
    assert [bucket["Name"] for bucket in yard_shell.client("s3").list_buckets()["Buckets"]] == [BUCKET]
    assert versions(yard_shell) == 2


def test_a_destroy_that_stopped_half_way_is_finished(yard_shell: RunningYard, slipway: Slipway) -> None:
    deploy(yard_shell, "Retain")
    yard_shell.client("ssm").delete_parameter(Name="/slipway/targets/dl1")
    code, _, err = slipway("cluster", "destroy", "dl1", "--yes")
    assert code == 0, err
    assert "what was left of dl1 is destroyed" in err
    assert stacks(yard_shell) == []


def test_without_the_cdk_no_job_is_cancelled_for_a_cluster_that_cannot_go(
    yard_shell: RunningYard, slipway: Slipway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deploy(yard_shell, "Delete")
    with_a_job(yard_shell, "RUNNING")
    (tmp_path / "bare").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bare"))
    code, _, err = slipway("cluster", "destroy", "dl1", "--cancel", "--yes")
    unscript(yard_shell)
    assert code == 1
    assert "error: there is no cdk command" in err
    assert "was cancelled" not in err


def test_nobody_is_taken_to_have_typed_the_name(yard_shell: RunningYard, slipway: Slipway) -> None:
    deploy(yard_shell, "Delete")
    code, _, err = slipway("cluster", "destroy", "dl1")
    assert code == 1
    assert "without a terminal nobody can be asked" in err
    assert stacks(yard_shell) == ["dl1-storage"]
