"""A replication of EFS: its destination is made, cannot go while it lasts, and outlives it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.yard.asking import refusal
from tests.yard.cloudformation.stacks import Stacks
from tests.yard.conftest import RunningYard

OTHER = "us-west-2"


def file_system(*destinations: dict[str, str]) -> dict[str, Any]:
    properties: dict[str, Any] = {"Encrypted": True}
    if destinations:
        properties["ReplicationConfiguration"] = {"Destinations": list(destinations)}
    return {"Data": {"Type": "AWS::EFS::FileSystem", "Properties": properties}}


def ids(yard: RunningYard, region: str) -> list[str]:
    found = yard.client("efs", region).describe_file_systems()["FileSystems"]
    return [one["FileSystemId"] for one in found]


@pytest.fixture
def stacks(yard: RunningYard) -> Stacks:
    return Stacks(yard)


def test_a_stack_replicates_a_file_system_and_its_destination_outlives_it(stacks: Stacks) -> None:
    made = stacks.create("data", file_system({"Region": OTHER}))
    efs = stacks.yard.client("efs")
    (kept,) = efs.describe_replication_configurations(FileSystemId=made["Data"])["Replications"]
    (destination,) = kept["Destinations"]
    assert ids(stacks.yard, OTHER) == [destination["FileSystemId"]]
    assert (destination["Region"], destination["Status"]) == (OTHER, "ENABLED")
    found = refusal(efs.delete_file_system, FileSystemId=made["Data"])
    assert (found["Code"], found["status"]) == ("FileSystemInUse", 409)
    stacks.delete("data")
    assert ids(stacks.yard, "us-east-1") == []
    other = stacks.yard.client("efs", OTHER)
    assert ids(stacks.yard, OTHER) == [destination["FileSystemId"]]
    other.delete_file_system(FileSystemId=destination["FileSystemId"])


def test_a_replication_begins_and_ends_with_an_update(stacks: Stacks) -> None:
    made = stacks.create("data", file_system())
    efs = stacks.yard.client("efs")
    asked = {"FileSystemId": made["Data"]}
    assert refusal(efs.describe_replication_configurations, **asked)["Code"] == "ReplicationNotFound"
    stacks.update("data", file_system({"Region": OTHER}))
    assert efs.describe_replication_configurations(**asked)["Replications"]
    stacks.update("data", file_system())
    assert refusal(efs.describe_replication_configurations, **asked)["Code"] == "ReplicationNotFound"


def test_a_file_system_has_one_replication_and_overwrites_no_other(stacks: Stacks) -> None:
    made = stacks.create("data", file_system({"Region": OTHER}))
    efs, source = stacks.yard.client("efs"), made["Data"]
    again = refusal(
        efs.create_replication_configuration, SourceFileSystemId=source, Destinations=[{"Region": OTHER}]
    )
    assert (again["Code"], again["status"]) == ("ConflictException", 409)
    one, two = (efs.create_file_system(CreationToken=token)["FileSystemId"] for token in "ab")
    protected = refusal(
        efs.create_replication_configuration, SourceFileSystemId=one, Destinations=[{"FileSystemId": two}]
    )
    assert "ReplicationOverwriteProtection is ENABLED" in protected["Message"]
