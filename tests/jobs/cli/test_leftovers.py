"""`slipway cluster leftovers` shows what a destroyed cluster's rest costs, and deletes only what is named."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.jobs.clusters.leftovers.finders import LeftoverKind
from slipway.jobs.clusters.leftovers.removal import find_leftovers, remove
from slipway.yard.gateway.faults import Fault, FaultKind, script, unscript
from tests.jobs.conftest import Slipway
from tests.yard.accounts import own_image
from tests.yard.cloudformation.stacks import Stacks, typed
from tests.yard.conftest import REGION, RunningYard

TAGS = [{"Key": "slipway:cluster", "Value": "dl1"}]
TAGGED = [("slipway:cluster", "dl1", "dl1"), ("slipway:image", "cpu-mpi", "slipway-bakery-cpu-mpi")]
KINDS = ["bucket", "EFS", "ECR repository", "log group", "KMS key"]


DELETE = ("cluster", "leftovers", "dl1", "--region", REGION, "--delete", "--confirm")
RESOURCES: dict[str, Any] = {
    "Key": {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": {"Version": "2012-10-17", "Statement": []}}},
    "Data": {"Type": "AWS::S3::Bucket"},
    "Files": {"Type": "AWS::EFS::FileSystem", "Properties": {"FileSystemTags": TAGS}},
    "Images": {"Type": "AWS::ECR::Repository"},
    "Logs": {"Type": "AWS::Logs::LogGroup"},
}


@pytest.fixture
def stack(yard_shell: RunningYard) -> RunningYard:
    """Make a storage stack that keeps its data, with an object of two versions in its bucket."""
    kept = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}
    resources = {
        name: {**kept, "Type": each["Type"], "Properties": {"Tags": TAGS, **each.get("Properties", {})}}
        for name, each in RESOURCES.items()
    }
    resources["Files"]["Properties"].pop("Tags")
    resources["Data"]["Properties"]["VersioningConfiguration"] = {"Status": "Enabled"}
    policy = resources["Key"]["Properties"]["KeyPolicy"]
    root = {"AWS": "arn:aws:iam::123456789012:root"}
    policy["Statement"].append({"Effect": "Allow", "Principal": root, "Action": "kms:*", "Resource": "*"})
    Stacks(yard_shell).create("dl1-storage", resources)
    for text in (b"first", b"second"):
        yard_shell.client("s3").put_object(Bucket=bucket_of(yard_shell), Key="runs/π", Body=text)
    return yard_shell


def bucket_of(yard: RunningYard) -> str:
    (bucket,) = [each["Name"] for each in yard.client("s3").list_buckets()["Buckets"]]
    return str(bucket)


def listed(slipway: Slipway) -> Any:
    return slipway.json("cluster", "leftovers", "dl1", "--region", REGION, "--json")


def test_what_a_stack_owns_is_no_leftover_and_nothing_of_it_is_deleted(
    stack: RunningYard, slipway: Slipway
) -> None:
    assert listed(slipway) == []
    slipway.told(*DELETE, "dl1")
    assert bucket_of(stack)


def test_what_a_destroyed_cluster_kept_is_listed_with_its_cost(stack: RunningYard, slipway: Slipway) -> None:
    Stacks(stack).delete("dl1-storage")
    found = listed(slipway)
    assert [each["kind"] for each in found] == KINDS
    costs = {each["kind"]: each["usd_per_month"] for each in found}
    assert costs["KMS key"] == 1.0
    assert 0 < costs["bucket"] < 0.0001
    assert "less than 0.0001" in slipway.printed("cluster", "leftovers", "dl1", "--region", REGION)
    assert found[0]["holds"] == "2 versions of objects"
    err = slipway.told(*DELETE, "c6i", code=1)
    assert "without a terminal nobody can be asked" in err
    assert "slipway cluster leftovers dl1 --delete --confirm dl1" in err
    assert len(listed(slipway)) == len(KINDS)


def test_a_machine_whose_stack_is_gone_is_a_leftover_with_its_price_and_is_ended(
    yard_shell: RunningYard,
) -> None:
    """A bakery that is destroyed during a bake has lost the role that would end its machine."""
    ec2, stacks, machines = yard_shell.client("ec2"), Stacks(yard_shell), {}
    for tag, owner, stack in TAGGED:
        wanted = {"ResourceType": "instance", "Tags": [{"Key": tag, "Value": owner}]}
        one = {"InstanceType": "c6i.large", "MinCount": 1, "MaxCount": 1, "TagSpecifications": [wanted]}
        started = ec2.run_instances(ImageId=own_image(ec2), **one)
        machines[owner] = started["Instances"][0]["InstanceId"]
        stacks.create(stack, {"Topic": typed("AWS::SNS::Topic")})
    assert find_leftovers(REGION).leftovers == ()
    for _, _, stack in TAGGED:
        stacks.delete(stack)
    found = find_leftovers(REGION).leftovers
    assert {each.owner: each.id for each in found} == machines
    assert {each.kind for each in found} == {LeftoverKind.MACHINE}
    assert [each.usd_per_month for each in found] == pytest.approx([62.05] * 2)
    for each in found:
        remove(each, REGION)
    running = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    assert ec2.describe_instances(Filters=running)["Reservations"] == []


def test_a_training_job_whose_cluster_is_gone_is_a_leftover(yard_shell: RunningYard) -> None:
    """The stacks delete its role, but SageMaker's instances go on, billed until the job's time limit."""
    arn = "arn:aws:sagemaker:us-east-1:123456789012:training-job/bert-1"
    bodies: dict[str, dict[str, Any]] = {
        "ListTrainingJobs": {"TrainingJobSummaries": [{"TrainingJobName": "bert-1", "TrainingJobArn": arn}]},
        "ListTags": {"Tags": TAGS},
        "DescribeTrainingJob": {"ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2}},
    }
    for operation, body in bodies.items():
        script(
            yard_shell,
            Fault(service="sagemaker", operation=operation, kind=FaultKind.RESPOND, body=[body], times=1),
        )
    (found,) = find_leftovers(REGION).leftovers
    unscript(yard_shell)
    assert (found.owner, found.kind, found.id) == ("dl1", LeftoverKind.TRAINING_JOB, "bert-1")
    assert found.holds == "2 × ml.p4d.24xlarge, and what was not saved"


VAULT = "aws/efs/automatic-backup-vault"
ARN = "arn:aws:backup:us-east-1:123456789012:recovery-point:1eb3b5e7-9eb0-435a-a80b-108b488b0d45"
POINT = {
    "RecoveryPointArn": ARN,
    "ResourceArn": "arn:aws:elasticfilesystem:us-east-1:123456789012:file-system/fs-0123456789abcdef0",
    "BackupSizeInBytes": 10 * 1024**3,
    "CalculatedLifecycle": {"DeleteAt": 1798761600},
}


def test_backups_that_outlive_their_files_are_listed_with_their_end_and_left_alone(
    yard_shell: RunningYard, slipway: Slipway
) -> None:
    """The yard makes no backups, so the test provides AWS Backup's answers."""
    bodies: dict[str, dict[str, Any]] = {
        "ListBackupVaults": {"BackupVaultList": [{"BackupVaultName": "Default"}, {"BackupVaultName": VAULT}]},
        "ListRecoveryPointsByBackupVault": {"RecoveryPoints": [POINT]},
        "ListTags": {"Tags": {"slipway:cluster": "dl1"}},
    }
    for operation, body in bodies.items():
        told = Fault(service="backup", operation=operation, kind=FaultKind.RESPOND, body=[body], times=2)
        script(yard_shell, told)
    (found,) = listed(slipway)
    assert (found["kind"], found["id"], found["gib"], found["usd_per_month"]) == ("AWS Backup", ARN, 10, 0.5)
    assert found["holds"] == "a copy of fs-0123456789abcdef0; AWS deletes it on 2027-01-01"
    err = slipway.told(*DELETE, "dl1")
    assert "1 backups stay until AWS Backup deletes them" in err
    unscript(yard_shell)


def test_an_interrupted_deletion_is_finished_by_the_next_and_the_key_goes_last(
    stack: RunningYard, slipway: Slipway
) -> None:
    Stacks(stack).delete("dl1-storage")
    script(stack, Fault(service="ecr", operation="DeleteRepository", kind=FaultKind.SERVER_ERROR, times=None))
    code, _, _ = slipway(*DELETE, "dl1")
    unscript(stack)
    assert code != 0
    assert [each["kind"] for each in listed(slipway)] == KINDS[2:]
    assert "aws kms cancel-key-deletion" in slipway.told(*DELETE, "dl1")
    assert listed(slipway) == []
    (key,) = stack.client("kms").list_keys()["Keys"]
    state = stack.client("kms").describe_key(KeyId=key["KeyId"])["KeyMetadata"]["KeyState"]
    assert state == "PendingDeletion"


def test_a_key_stays_while_what_it_encrypts_cannot_be_seen(stack: RunningYard, slipway: Slipway) -> None:
    Stacks(stack).delete("dl1-storage")
    silent = Fault(service="efs", operation="DescribeFileSystems", kind=FaultKind.SERVER_ERROR, times=None)
    script(stack, silent)
    code, _, err = slipway(*DELETE, "dl1")
    unscript(stack)
    assert code == 0, err
    assert "EFS: elasticfilesystem:DescribeFileSystems gave no answer" in err
    assert "KMS keys stay" in err
    assert [each["kind"] for each in listed(slipway)] == ["EFS", "KMS key"]
