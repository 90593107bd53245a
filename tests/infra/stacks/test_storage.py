"""Stored data is private, encrypted with one key, and outlives a cluster unless its owner says otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.infra.declare.types import Cluster, FileSystem
from tests.infra.synthesis import (
    CLUSTER,
    MPI_CLUSTER,
    OTHER,
    SLURM_CLUSTER,
    Properties,
    as_text,
    deletion_policies,
    of_type,
    only,
    templates_of,
)

KEPT = ("AWS::KMS::Key", "AWS::S3::Bucket", "AWS::ECR::Repository", "AWS::EFS::FileSystem")
LUSTRE: dict[str, Any] = {
    "file_system": FileSystem.FSX_LUSTRE,
    "fsx_capacity_gib": 4800,
    "fsx_mbps_per_tib": 500,
}


def data_bucket(**changes: Any) -> Properties:
    buckets = of_type(templates_of(**changes).storage, "AWS::S3::Bucket")
    (found,) = [each for name, each in buckets.items() if "AccessLogs" not in name]
    return found


def mount_rules(**changes: Any) -> set[tuple[str, int, int]]:
    """Return the open ports, and their direction, of a group other than the nodes' own."""
    template = templates_of(**changes).compute
    return {
        (direction, rule["FromPort"], rule["ToPort"])
        for direction in ("Ingress", "Egress")
        for name, rule in of_type(template, f"AWS::EC2::SecurityGroup{direction}").items()
        if name.startswith("MountRules")
    }


@pytest.mark.parametrize("resource_type", KEPT)
def test_data_stays_when_the_stack_goes(resource_type: str) -> None:
    assert deletion_policies(templates_of().storage, resource_type) <= {"Retain", "RetainExceptOnCreate"}


@pytest.mark.parametrize("resource_type", KEPT)
def test_data_goes_with_the_stack_where_its_owner_says_so(resource_type: str) -> None:
    assert deletion_policies(templates_of(**OTHER).storage, resource_type) == {"Delete"}


def test_a_repository_that_goes_takes_its_images_along() -> None:
    assert only(templates_of(**OTHER).storage, "AWS::ECR::Repository")["EmptyOnDelete"] is True
    assert not only(templates_of().storage, "AWS::ECR::Repository").get("EmptyOnDelete")


@pytest.mark.parametrize(("changes", "policy"), [({}, "RetainExceptOnCreate"), (OTHER, "Delete")])
def test_logs_follow_the_data(changes: dict[str, Any], policy: str) -> None:
    for template in (templates_of(**changes).network, templates_of(**changes).observability):
        assert deletion_policies(template, "AWS::Logs::LogGroup") == {policy}


def test_the_bucket_is_encrypted_versioned_and_its_accesses_are_logged() -> None:
    bucket = data_bucket()
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["BucketKeyEnabled"] is True
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert bucket["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    assert "DestinationBucketName" in bucket["LoggingConfiguration"]


def test_a_bucket_that_goes_with_its_stack_leaves_no_log_bucket_behind() -> None:
    assert len(of_type(templates_of(**OTHER).storage, "AWS::S3::Bucket")) == 1
    assert "LoggingConfiguration" not in data_bucket(**OTHER)


def test_no_bucket_answers_without_tls_1_2_or_to_the_public() -> None:
    template = templates_of().storage
    policies = of_type(template, "AWS::S3::BucketPolicy").values()
    assert len(policies) == len(of_type(template, "AWS::S3::Bucket")) == 2
    for policy in policies:
        denied = [
            each["Condition"] for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Deny"
        ]
        assert {"Bool": {"aws:SecureTransport": "false"}} in denied
        assert {"NumericLessThan": {"s3:TlsVersion": 1.2}} in denied
    for bucket in of_type(template, "AWS::S3::Bucket").values():
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}


def test_abandoned_uploads_and_replaced_checkpoints_do_not_cost_for_ever() -> None:
    rules = data_bucket()["LifecycleConfiguration"]["Rules"]
    assert any("AbortIncompleteMultipartUpload" in rule for rule in rules)
    assert any("NoncurrentVersionExpiration" in rule for rule in rules)
    assert {rule["Prefix"] for rule in rules if "ExpirationInDays" in rule} == {"builds/", "sources/"}


def test_one_key_that_rotates_encrypts_everything() -> None:
    template = templates_of().storage
    (key,) = of_type(template, "AWS::KMS::Key")
    assert only(template, "AWS::KMS::Key")["EnableKeyRotation"] is True
    arn = {"Fn::GetAtt": [key, "Arn"]}
    assert only(template, "AWS::EFS::FileSystem")["KmsKeyId"] == arn
    assert only(template, "AWS::ECR::Repository")["EncryptionConfiguration"]["KmsKey"] == arn


# What EFS knows of its clients: it enforces no other key (user guide, "Using IAM to control access to file
# systems").
EFS_KEYS = {
    "aws:SecureTransport",
    "aws:SourceIp",
    "elasticfilesystem:AccessPointArn",
    "elasticfilesystem:AccessedViaMountTarget",
}


def test_efs_is_mounted_in_one_zone_with_tls_by_this_account_only() -> None:
    template = templates_of().storage
    files = only(template, "AWS::EFS::FileSystem")
    assert files["Encrypted"] is True
    (statement,) = files["FileSystemPolicy"]["Statement"]
    assert as_text(statement["Principal"]["AWS"]) == "arn:aws:iam::<…>:root"
    assert statement["Condition"].keys() == {"Bool"}
    assert statement["Condition"]["Bool"]["aws:SecureTransport"] == "true"
    assert set(statement["Condition"]["Bool"]) <= EFS_KEYS
    assert len(of_type(template, "AWS::EFS::MountTarget")) == 1


@pytest.mark.parametrize("cluster", [CLUSTER, MPI_CLUSTER, SLURM_CLUSTER], ids=lambda each: each.kind)
def test_every_machine_may_mount_the_efs_of_its_cluster_and_no_other(cluster: Cluster) -> None:
    """The policy of the file system names the account, which leaves it to the roles' own policies."""
    compute = templates_of(cluster).compute
    machines = {
        name
        for name, role in of_type(compute, "AWS::IAM::Role").items()
        if role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"].get("Service") == "ec2.amazonaws.com"
    }
    mounting = {
        role["Ref"]: statement["Resource"]
        for policy in of_type(compute, "AWS::IAM::ManagedPolicy").values()
        for role in policy["Roles"]
        for statement in policy["PolicyDocument"]["Statement"]
        if "elasticfilesystem:ClientMount" in statement["Action"]
    }
    assert mounting.keys() == machines
    assert all(as_text(resource).endswith(":file-system/<…>") for resource in mounting.values())


@pytest.mark.parametrize(("changes", "status"), [({}, "ENABLED"), (OTHER, "DISABLED")])
def test_files_that_are_kept_have_backups_and_others_leave_none(changes: dict[str, Any], status: str) -> None:
    """AWS keeps a backup for 35 days, and nobody can delete it earlier."""
    files = only(templates_of(**changes).storage, "AWS::EFS::FileSystem")
    assert files["BackupPolicy"] == {"Status": status}


def test_nodes_reach_efs_on_its_port_only() -> None:
    assert mount_rules() == {("Egress", 2049, 2049), ("Ingress", 2049, 2049)}


def test_lustre_has_the_declared_size_and_speed_and_keeps_its_data() -> None:
    template = templates_of(**LUSTRE).storage
    files = only(template, "AWS::FSx::FileSystem")
    lustre = files["LustreConfiguration"]
    assert files["StorageCapacity"] == 4800
    assert (lustre["DeploymentType"], lustre["PerUnitStorageThroughput"]) == ("PERSISTENT_2", 500)
    assert lustre["AutomaticBackupRetentionDays"] == 7
    assert "KmsKeyId" in files
    assert deletion_policies(template, "AWS::FSx::FileSystem") == {"RetainExceptOnCreate"}


def test_nodes_and_lustre_reach_each_other_on_lustres_ports_only() -> None:
    ports = {(988, 988), (1018, 1023)}
    expected = {(direction, *pair) for direction in ("Egress", "Ingress") for pair in ports}
    assert mount_rules(**LUSTRE) == expected
    own = of_type(templates_of(**LUSTRE).storage, "AWS::EC2::SecurityGroupIngress")
    assert {(each["FromPort"], each["ToPort"]) for each in own.values()} == ports


def test_a_lustre_is_made_after_the_rules_that_fsx_looks_for() -> None:
    found = templates_of(**LUSTRE).storage["Resources"]
    (lustre,) = [each for each in found.values() if each["Type"] == "AWS::FSx::FileSystem"]
    rules = [name for name, each in found.items() if each["Type"].startswith("AWS::EC2::SecurityGroup")]
    (group,) = of_type(templates_of(**LUSTRE).storage, "AWS::EC2::SecurityGroup")
    assert set(lustre["DependsOn"]) == set(rules) - {group}


def test_a_lustre_that_is_kept_keeps_the_group_and_the_subnet_that_its_interface_is_in() -> None:
    kept = templates_of(**LUSTRE)
    for template, sort in (
        *((kept.storage, f"AWS::EC2::SecurityGroup{rule}") for rule in ("", "Ingress", "Egress")),
        *((kept.network, f"AWS::EC2::{sort}") for sort in ("VPC", "Subnet")),
    ):
        assert deletion_policies(template, sort) == {"RetainExceptOnCreate"}, sort
    gone = templates_of(**LUSTRE, keep_data=False)
    for other in (gone.network, gone.storage, templates_of().network):
        for sort in ("VPC", "Subnet", "SecurityGroup"):
            assert deletion_policies(other, f"AWS::EC2::{sort}") <= {"Delete"}


def test_without_a_file_system_there_is_none_and_no_rule_for_it() -> None:
    template = templates_of(file_system=FileSystem.NONE).storage
    assert not of_type(template, "AWS::EFS::FileSystem")
    assert not of_type(template, "AWS::FSx::FileSystem")
    assert mount_rules(file_system=FileSystem.NONE) == set()
