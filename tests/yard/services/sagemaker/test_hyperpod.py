"""Clusters on HyperPod in the yard: made, changed, deleted and refused, with no node behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from slipway.yard.endpoint import control
from tests.yard.conftest import RunningYard

BUCKET, SCRIPT = "sagemaker-scripts", "lifecycle/a1/start.sh"
ROLE = "arn:aws:iam::123456789012:role/hyperpod"


@pytest.fixture(autouse=True)
def account(yard: RunningYard) -> None:
    s3, iam = yard.client("s3"), yard.client("iam")
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key=SCRIPT, Body=b"")
    trust = _statement("sts:AssumeRole", Principal={"Service": "sagemaker.amazonaws.com"})
    iam.create_role(RoleName="hyperpod", AssumeRolePolicyDocument=trust)
    iam.create_role(RoleName="blind", AssumeRolePolicyDocument=trust)
    read = _statement(
        ["s3:ListBucket", "s3:GetObject"],
        Resource=[f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/lifecycle/*"],
    )
    iam.put_role_policy(RoleName="hyperpod", PolicyName="read", PolicyDocument=read)


def _statement(action: str | list[str], **words: Any) -> str:
    return json.dumps(
        {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, **words}]}
    )


def group(name: str, node_type: str, **changes: Any) -> dict[str, Any]:
    return {
        "InstanceGroupName": name,
        "InstanceType": "ml.c6i.xlarge",
        "InstanceCount": 1,
        "ExecutionRole": ROLE,
        "LifeCycleConfig": {"SourceS3Uri": f"s3://{BUCKET}/lifecycle/a1/", "OnInitComplete": "start.sh"},
        "SlurmConfig": {"NodeType": node_type},
        **changes,
    }


def request(name: str, worker: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    groups = [group("controller", "Controller"), group("workers", "Compute", **(worker or {}))]
    return {
        "ClusterName": name,
        "InstanceGroups": groups,
        "Orchestrator": {"Slurm": {}},
        **changes,
    }


def test_a_cluster_has_an_id_of_hyperpods_form_nodes_of_each_group_and_its_tags(yard: RunningYard) -> None:
    client = yard.client("sagemaker")
    tags = [{"Key": "team", "Value": "a"}]
    arn = client.create_cluster(**request("whole", {"InstanceCount": 2}, Tags=tags))["ClusterArn"]
    assert len(arn.rpartition("/")[2]) == 12
    found = client.describe_cluster(ClusterName="whole")
    assert (found["ClusterArn"], found["ClusterStatus"]) == (arn, "InService")
    assert {each["InstanceGroupName"]: each["CurrentCount"] for each in found["InstanceGroups"]} == {
        "controller": 1,
        "workers": 2,
    }
    rows = client.list_cluster_nodes(ClusterName=arn, InstanceGroupNameContains="work")[
        "ClusterNodeSummaries"
    ]
    assert len(rows) == 2
    assert "plays no node" in rows[0]["InstanceStatus"]["Message"]
    node = client.describe_cluster_node(ClusterName=arn, NodeId=rows[0]["InstanceId"])["NodeDetails"]
    assert node["InstanceType"] == "ml.c6i.xlarge"
    assert client.list_tags(ResourceArn=arn)["Tags"] == tags
    client.delete_cluster(ClusterName=arn)
    with pytest.raises(ClientError, match="Could not find cluster 'whole'"):
        client.describe_cluster(ClusterName="whole")


def test_a_group_that_grows_keeps_its_nodes(yard: RunningYard) -> None:
    client = yard.client("sagemaker")
    client.create_cluster(**request("grows"))
    before = _nodes(client, "grows")
    client.update_cluster(
        ClusterName="grows",
        InstanceGroups=[
            group("controller", "Controller"),
            group("workers", "Compute", InstanceCount=3),
        ],
    )
    assert before < _nodes(client, "grows")
    assert len(_nodes(client, "grows")) == 4


def test_a_role_that_may_not_read_the_scripts_fails_the_cluster_and_no_node_stands(yard: RunningYard) -> None:
    client = yard.client("sagemaker")
    client.create_cluster(**request("blind", {"ExecutionRole": ROLE.replace("hyperpod", "blind")}))
    found = client.describe_cluster(ClusterName="blind")
    assert found["ClusterStatus"] == "Failed"
    assert "could not download its lifecycle scripts" in found["FailureMessage"]
    assert "s3:ListBucket" in found["FailureMessage"]
    assert not _nodes(client, "blind")


def test_a_script_that_is_not_there_fails_the_cluster(yard: RunningYard) -> None:
    client = yard.client("sagemaker")
    lost = {"SourceS3Uri": f"s3://{BUCKET}/lifecycle/a1/", "OnInitComplete": "lost.sh"}
    client.create_cluster(**request("lost", {"LifeCycleConfig": lost}))
    found = client.describe_cluster(ClusterName="lost")
    assert "found no lifecycle script lost.sh" in found["FailureMessage"]


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("no role", {"ExecutionRole": ROLE + "-nobody"}, {}, "Could not assume role"),
    ("one name twice", {"InstanceGroupName": "controller"}, {}, "names must be unique"),
    ("no worker", {"SlurmConfig": {"NodeType": "Login"}}, {}, "one of Compute"),
    (
        "no Slurm",
        {},
        {"Orchestrator": {"Eks": {"ClusterArn": "arn:aws:eks:us-east-1:123456789012:cluster/a"}}},
        "Eks",
    ),
    (
        "two scripts",
        {"LifeCycleConfig": {"SourceS3Uri": "s3://a/", "OnCreate": "a.sh", "OnInitComplete": "b.sh"}},
        {},
        "exclude each other",
    ),
    ("a script from nowhere", {"LifeCycleConfig": {"OnCreate": "a.sh"}}, {}, "needs SourceS3Uri"),
    (
        "a key of one's own",
        {"InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 9, "VolumeKmsKeyId": "alias/a"}}]},
        {},
        "NodeProvisioningMode is Continuous",
    ),
    ("more than all", {"MinInstanceCount": 2}, {}, "less than or equal to InstanceCount"),
    (
        "an unknown subnet",
        {},
        {"VpcConfig": {"Subnets": ["subnet-12345678"], "SecurityGroupIds": ["sg-12345678"]}},
        "The subnet ID 'subnet-12345678' does not exist",
    ),
]


@pytest.mark.parametrize(
    ("worker", "changes", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_a_cluster_that_aws_would_refuse_is_refused(
    yard: RunningYard, worker: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ClientError, match=words):
        yard.client("sagemaker").create_cluster(**request("refused", worker, **changes))


def test_a_name_is_taken_once(yard: RunningYard) -> None:
    client = yard.client("sagemaker")
    client.create_cluster(**request("taken"))
    with pytest.raises(ClientError, match="ResourceInUse"):
        client.create_cluster(**request("taken"))


def test_a_quota_of_cluster_usage_holds_for_all_clusters_together(yard: RunningYard) -> None:
    control(yard, "POST", "/grant-quota", {"code": "ml.trn1.32xlarge for cluster usage", "vcpus": 2})
    client, kind = yard.client("sagemaker"), {"InstanceType": "ml.trn1.32xlarge"}
    client.create_cluster(**request("within", kind))
    with pytest.raises(ClientError, match="current utilization of 1 Instances and a request delta of 2"):
        client.create_cluster(**request("above", {**kind, "InstanceCount": 2}))


def _nodes(client: Any, name: str) -> set[str]:
    rows = client.list_cluster_nodes(ClusterName=name)["ClusterNodeSummaries"]
    return {row["InstanceId"] for row in rows}
