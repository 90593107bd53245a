"""PCS of the yard, through boto3: created, found, changed, listed page by page and deleted in order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.yard.asking import refusal
from tests.yard.conftest import RunningYard

PROFILE = "arn:aws:iam::123456789012:instance-profile/a"


@pytest.fixture
def pcs(yard: RunningYard) -> Any:
    return yard.client("pcs")


def create_cluster(pcs: Any, name: str = "trn", **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = pcs.create_cluster(
        clusterName=name,
        scheduler={"type": "SLURM", "version": "24.11"},
        size="SMALL",
        networking={"subnetIds": ["subnet-12345678"], "securityGroupIds": ["sg-12345678"]},
        **more,
    )["cluster"]
    return made


def create_group(pcs: Any, cluster: str, name: str = "workers", **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = pcs.create_compute_node_group(
        clusterIdentifier=cluster,
        computeNodeGroupName=name,
        subnetIds=["subnet-12345678"],
        customLaunchTemplate={"id": "lt-12345678", "version": "1"},
        iamInstanceProfileArn=PROFILE,
        scalingConfiguration={"minInstanceCount": 0, "maxInstanceCount": 4},
        instanceConfigs=[{"instanceType": "trn1.32xlarge"}],
        **more,
    )["computeNodeGroup"]
    return made


def create_queue(pcs: Any, cluster: str, group: str, name: str = "train") -> dict[str, Any]:
    made: dict[str, Any] = pcs.create_queue(
        clusterIdentifier=cluster,
        queueName=name,
        computeNodeGroupConfigurations=[{"computeNodeGroupId": group}],
    )["queue"]
    return made


def test_what_was_created_is_found_by_name_and_by_id_as_it_was_given(pcs: Any) -> None:
    made = create_cluster(pcs, tags={"a": "b"}, slurmConfiguration={"scaleDownIdleTimeInSeconds": 600})
    assert made["status"] == "CREATING"
    by_name = pcs.get_cluster(clusterIdentifier="trn")["cluster"]
    assert by_name == pcs.get_cluster(clusterIdentifier=made["id"])["cluster"]
    assert by_name["status"] == "ACTIVE"
    assert by_name["arn"] == f"arn:aws:pcs:us-east-1:123456789012:cluster/{made['id']}"
    assert by_name["networking"]["subnetIds"] == ["subnet-12345678"]
    assert by_name["slurmConfiguration"]["scaleDownIdleTimeInSeconds"] == 600
    assert by_name["slurmConfiguration"]["authKey"]["secretArn"].startswith("arn:aws:secretsmanager:")
    assert by_name["endpoints"][0]["type"] == "SLURMCTLD"
    assert pcs.list_tags_for_resource(resourceArn=made["arn"])["tags"] == {"a": "b"}


def test_groups_and_queues_belong_to_their_cluster(pcs: Any) -> None:
    create_cluster(pcs, "one")
    two = create_cluster(pcs, "two")
    group = create_group(pcs, "two")
    queue = create_queue(pcs, two["id"], group["id"])
    assert (group["clusterId"], queue["clusterId"]) == (two["id"], two["id"])
    assert group["arn"] == f"{two['arn']}/computenodegroup/{group['id']}"
    assert queue["arn"] == f"{two['arn']}/queue/{queue['id']}"
    assert pcs.list_queues(clusterIdentifier="one")["queues"] == []
    found = pcs.get_compute_node_group(clusterIdentifier="two", computeNodeGroupIdentifier="workers")
    assert found["computeNodeGroup"]["instanceConfigs"] == [{"instanceType": "trn1.32xlarge"}]
    refused = refusal(pcs.get_queue, clusterIdentifier="one", queueIdentifier=queue["id"])
    assert (refused["Code"], refused["status"]) == ("ResourceNotFoundException", 404)


def test_an_update_changes_what_it_names_and_nothing_else(pcs: Any) -> None:
    cluster = create_cluster(pcs)
    group = create_group(pcs, cluster["id"])
    which = {"clusterIdentifier": cluster["id"], "computeNodeGroupIdentifier": group["id"]}
    more = {"minInstanceCount": 1, "maxInstanceCount": 8}
    updated = pcs.update_compute_node_group(**which, scalingConfiguration=more)["computeNodeGroup"]
    assert updated["status"] == "UPDATING"
    found = pcs.get_compute_node_group(**which)["computeNodeGroup"]
    assert found["scalingConfiguration"] == more
    assert found["customLaunchTemplate"] == {"id": "lt-12345678", "version": "1"}
    assert found["modifiedAt"] >= found["createdAt"]


def test_a_second_of_the_same_name_is_refused_and_a_repeated_request_is_not(pcs: Any) -> None:
    first = create_cluster(pcs, clientToken="once-1234")
    assert create_cluster(pcs, clientToken="once-1234")["id"] == first["id"]
    refused = refusal(lambda: create_cluster(pcs))
    assert (refused["Code"], refused["status"]) == ("ConflictException", 409)
    assert len(pcs.list_clusters()["clusters"]) == 1


def test_what_is_used_is_not_deleted(pcs: Any) -> None:
    cluster = create_cluster(pcs)["id"]
    group = create_group(pcs, cluster)["id"]
    create_queue(pcs, cluster, group)
    which = {"clusterIdentifier": cluster}
    assert refusal(pcs.delete_cluster, **which)["Code"] == "ConflictException"
    used = refusal(pcs.delete_compute_node_group, **which, computeNodeGroupIdentifier=group)
    assert "used by train" in used["Message"]
    pcs.delete_queue(**which, queueIdentifier="train")
    pcs.delete_compute_node_group(**which, computeNodeGroupIdentifier=group)
    pcs.delete_cluster(**which)
    assert pcs.list_clusters()["clusters"] == []
    assert refusal(pcs.delete_cluster, **which)["Code"] == "ResourceNotFoundException"


def test_a_queue_of_a_group_that_is_not_there_is_refused(pcs: Any) -> None:
    cluster = create_cluster(pcs)["id"]
    refused = refusal(lambda: create_queue(pcs, cluster, "pcs_none"))
    assert (refused["Code"], "pcs_none" in refused["Message"]) == ("ResourceNotFoundException", True)


def test_tags_are_added_and_taken_away(pcs: Any) -> None:
    arn = create_cluster(pcs)["arn"]
    pcs.tag_resource(resourceArn=arn, tags={"a": "1", "b": "2"})
    pcs.untag_resource(resourceArn=arn, tagKeys=["a"])
    assert pcs.list_tags_for_resource(resourceArn=arn)["tags"] == {"b": "2"}


def test_a_list_comes_page_by_page(pcs: Any) -> None:
    for number in range(5):
        create_cluster(pcs, f"cluster-{number}")
    pages = [
        [cluster["name"] for cluster in page["clusters"]]
        for page in pcs.get_paginator("list_clusters").paginate(PaginationConfig={"PageSize": 2})
    ]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert sorted(name for page in pages for name in page) == [f"cluster-{number}" for number in range(5)]
