"""`slipway cluster destroy` and `empty` end no job, and name what is kept."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.platforms.mpi import halting
from slipway.jobs.platforms.mpi.nodes import Clock
from slipway.jobs.words.targets import MpiTarget
from slipway.yard.gateway.faults import Fault, FaultKind, script, scripted, unscript
from tests.jobs.conftest import Slipway
from tests.jobs.deployed import record_target
from tests.jobs.words.test_targets import MPI_TARGET, TARGET
from tests.yard.accounts import own_image
from tests.yard.cloudformation.stacks import Stacks
from tests.yard.conftest import RunningYard

BUCKET = "dl1-storage-throw-away"


def deploy(yard: RunningYard, deletion_policy: str) -> None:
    """The storage stack and the target record, as infra makes them, with two versions of one object."""
    bucket = {
        "Type": "AWS::S3::Bucket",
        "DeletionPolicy": deletion_policy,
        "UpdateReplacePolicy": deletion_policy,
        "Properties": {"BucketName": BUCKET, "VersioningConfiguration": {"Status": "Enabled"}},
    }
    Stacks(yard).create("dl1-storage", {"Data": bucket})
    for text in (b"first", b"second"):
        yard.client("s3").put_object(Bucket=BUCKET, Key="runs/a b/π", Body=text)
    target = replace(TARGET, name="dl1", bucket=BUCKET, account="123456789012", region="us-east-1")
    record_target(yard, target)


def versions(yard: RunningYard) -> int:
    return len(yard.client("s3").list_object_versions(Bucket=BUCKET).get("Versions", []))


def test_machines_that_would_write_again_are_stopped_first_and_every_version_is_deleted_and_counted(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    deploy(yard_shell, "Delete")
    deploy_machines(yard_shell, protected=False)
    assert running(yard_shell) == 2
    code, out, err = slipway("cluster", "empty", "dl1", "--yes")
    assert (code, out) == (0, ""), err
    assert "2 versions deleted" in err
    assert (running(yard_shell), versions(yard_shell)) == (0, 0)


@pytest.mark.parametrize("command", ["empty", "destroy"])
def test_nobody_is_taken_to_have_said_yes(  # BI-183
    yard_shell: RunningYard, slipway: Slipway, command: str
) -> None:
    assert "no cluster named 'dl2' is deployed" in slipway.told("cluster", "empty", "dl2", "--yes", code=1)
    deploy(yard_shell, "Delete")
    err = slipway.told("cluster", command, "dl1", code=1)
    assert "without a terminal nobody can be asked" in err
    assert f"slipway cluster {command} dl1" in err
    assert (stacks(yard_shell), versions(yard_shell)) == (["dl1-storage"], 2)


def test_data_that_is_kept_is_not_touched(yard_shell: RunningYard, slipway: Slipway) -> None:
    deploy(yard_shell, "Retain")
    err = slipway.told("cluster", "empty", "dl1", "--yes", code=1)
    assert "error: the data of dl1 is kept" in err
    assert "-c dl1.keep_data=false" in err
    assert versions(yard_shell) == 2


def test_a_running_job_is_named_and_nothing_is_deleted(yard_shell: RunningYard, slipway: Slipway) -> None:
    """BI-180."""
    deploy(yard_shell, "Delete")
    with_a_job(yard_shell, "RUNNING", jobs=2)
    err = slipway.told("cluster", "empty", "dl1", "--yes", code=1)
    unscript(yard_shell)
    assert "error: bert-1 and 1 more of dl1 have not ended" in err
    assert "slipway cancel bert-1" in err
    assert versions(yard_shell) == 2


def deploy_machines(yard: RunningYard, *, protected: bool) -> MpiTarget:
    """Replace the deployed cluster by one whose two machines stay between jobs."""
    image = own_image(yard.client("ec2"))
    yard.client("ec2").create_launch_template(
        LaunchTemplateName="c6i", LaunchTemplateData={"InstanceType": "c6i.large", "ImageId": image}
    )
    scaling = yard.client("autoscaling")
    scaling.create_auto_scaling_group(
        AutoScalingGroupName="c6i-nodes",
        LaunchTemplate={"LaunchTemplateName": "c6i"},
        MinSize=1,
        MaxSize=2,
        DesiredCapacity=2,
        AvailabilityZones=["us-east-1a"],
        NewInstancesProtectedFromScaleIn=protected,
        Tags=[{"Key": "slipway:cluster", "Value": "dl1", "PropagateAtLaunch": True}],
    )
    target = replace(
        MPI_TARGET,
        name="dl1",
        bucket=BUCKET,
        account="123456789012",
        region="us-east-1",
        node_group="c6i-nodes",
    )
    record_target(yard, target)
    return target


def running(yard: RunningYard) -> int:
    filters = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    found = yard.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return sum(len(reservation["Instances"]) for reservation in found)


def test_machines_that_somebody_protects_stay_and_so_does_the_data(
    yard_shell: RunningYard, slipway: Slipway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(halting, "HELD_SECONDS", 0.0)
    deploy(yard_shell, "Delete")
    deploy_machines(yard_shell, protected=True)
    err = slipway.told("cluster", "empty", "dl1", "--yes", code=1)
    assert "error: 2 machines of dl1 are protected from scaling in, though no job of Slipway's runs" in err
    assert (running(yard_shell), versions(yard_shell)) == (2, 2)


def test_machines_that_a_cancelled_job_still_holds_are_waited_for(yard_shell: RunningYard) -> None:
    deploy(yard_shell, "Delete")
    target = deploy_machines(yard_shell, protected=True)
    said: list[str] = []

    def pause(_: float) -> None:
        """Do what the cluster's main node does soon afterwards."""
        scaling = yard_shell.client("autoscaling")
        (group,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
        scaling.set_instance_protection(
            AutoScalingGroupName=group["AutoScalingGroupName"],
            InstanceIds=[instance["InstanceId"] for instance in group["Instances"]],
            ProtectedFromScaleIn=False,
        )

    halting.halt(target, said.append, Clock(pause=pause))
    assert said == ["2 are still held by a job that ended"]
    assert running(yard_shell) == 0


# Stands in for the CDK: writes one stack in a Stage as a synthesis would, and deletes a stack of that name.
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


def with_a_job(yard: RunningYard, *statuses: str, jobs: int = 1) -> None:
    """Let Batch list this many jobs, in one status after the other."""
    listed = [{"jobId": f"{number}a1b", "jobName": f"bert-{number}"} for number in range(1, jobs + 1)]
    answers: dict[str, list[dict[str, Any]]] = {
        "DescribeJobQueues": [{"jobQueues": [{"jobQueueName": "dl1", "state": "ENABLED"}]}],
        "ListJobs": [{"jobSummaryList": listed}],
        "DescribeJobs": [{"jobs": [{**job, "status": status} for job in listed]} for status in statuses],
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


def test_a_job_that_somebody_submits_while_a_person_types_the_name_is_not_cancelled_with_the_cluster(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    deploy(yard_shell, "Delete")
    with_a_job(yard_shell, "FAILED", "RUNNING")
    closing = Fault(
        service="batch", operation="UpdateJobQueue", kind=FaultKind.RESPOND, body=[{}], times=None
    )
    script(yard_shell, closing)
    err = slipway.told("cluster", "destroy", "dl1", "--yes", code=1)
    struck = {each["operation"]: each["struck"] for each in scripted(yard_shell)}
    unscript(yard_shell)
    assert "error: bert-1 of dl1 has not ended, so nothing was destroyed" in err
    assert (struck["UpdateJobQueue"], struck["TerminateJob"]) == (2, 0), "closed, and open again"
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
    err = slipway.told("cluster", "destroy", "dl1", "--yes")
    assert "its data stays, and costs: slipway cluster leftovers dl1" in err
    assert [bucket["Name"] for bucket in yard_shell.client("s3").list_buckets()["Buckets"]] == [BUCKET]
    assert versions(yard_shell) == 2


def test_a_destroy_that_stopped_half_way_is_finished(yard_shell: RunningYard, slipway: Slipway) -> None:
    deploy(yard_shell, "Retain")
    yard_shell.client("ssm").delete_parameter(Name="/slipway/targets/dl1")
    assert "what was left of dl1 is destroyed" in slipway.told("cluster", "destroy", "dl1", "--yes")
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
