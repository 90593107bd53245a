"""Overrides, retries and mounts are decided right before any process starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slipway.yard.errors import ApiError
from slipway.yard.machines import storage
from slipway.yard.services.batch import overrides, plan
from slipway.yard.services.batch.attempt import ContainerExit, is_retried

HOST_GONE = "Host EC2 (instance i-0) terminated."


def ranges(*texts: str, count: int = 4, main: int = 0) -> dict[str, Any]:
    groups = [
        {"targetNodes": text, "container": {"command": [text], "environment": [pair("A", text)]}}
        for text in texts
    ]
    return {"nodeProperties": {"numNodes": count, "mainNode": main, "nodeRangeProperties": groups}}


def pair(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


def override(nodes: str, **changes: Any) -> dict[str, Any]:
    return {"targetNodes": nodes, "containerOverrides": changes}


def container(
    definition: dict[str, Any], node: int, *given: dict[str, Any], count: int = 0
) -> dict[str, Any]:
    submit = {"nodeOverrides": {"numNodes": count, "nodePropertyOverrides": list(given)}}
    return overrides.container_of_node(overrides.node_properties(definition, submit), submit, node)


def test_the_narrower_of_two_ranges_counts() -> None:
    assert container(ranges("0:", "2:3"), 1)["command"] == ["0:"]
    assert container(ranges("0:", "2:3"), 3)["command"] == ["2:3"]


def test_variables_are_merged_by_name_and_commands_replaced() -> None:
    given = override("0:", command=["train"], environment=[pair("B", "2"), pair("A", "1")])
    found = container(ranges("0:"), 2, given)
    assert found["command"] == ["train"]
    assert {item["name"]: item["value"] for item in found["environment"]} == {"A": "1", "B": "2"}


def test_an_override_reaches_the_nodes_that_it_names_alone() -> None:
    given = override("1:2", command=["other"])
    assert [container(ranges("0:"), node, given)["command"] for node in (0, 1, 2, 3)] == [
        ["0:"],
        ["other"],
        ["other"],
        ["0:"],
    ]


def test_an_open_range_grows_with_the_number_of_nodes() -> None:
    assert container(ranges("0:"), 15, override("0:", command=["train"]), count=16)["command"] == ["train"]


@pytest.mark.parametrize(
    ("definition", "count"), [(ranges("0:3"), 2), (ranges("0:", main=2), 2), (ranges("0:1", "2:"), 2)]
)
def test_a_number_of_nodes_that_the_definition_cannot_have_is_refused(
    definition: dict[str, Any], count: int
) -> None:
    with pytest.raises(ApiError):
        container(definition, 0, count=count)


def test_references_in_a_command_become_parameters() -> None:
    definition = {"parameters": {"size": "large", "data": "default"}}
    words = overrides.command(
        {"command": ["Ref::size", "Ref::data", "Ref::no"]}, definition, {"parameters": {"data": "x"}}
    )
    assert words == ["large", "x", "Ref::no"]


RULES = [
    {"onExitCode": "85", "action": "retry"},
    {"onStatusReason": "host ec2*", "action": "RETRY"},
    {"onReason": "*", "onExitCode": "1*", "action": "exit"},
]


@pytest.mark.parametrize(
    ("code", "reason", "again"),
    [
        (85, "exited", True),
        (1, "exited", False),
        (137, "exited", False),
        (2, "exited", True),
        (None, HOST_GONE, True),
    ],
)
def test_the_first_rule_that_matches_decides_and_none_means_again(
    code: int | None, reason: str, again: bool
) -> None:
    ending = ContainerExit(status_reason=reason, exit_code=code)
    assert is_retried(ending, {"attempts": 3, "evaluateOnExit": RULES}, 1) is again


def test_success_and_the_last_attempt_are_final() -> None:
    assert not is_retried(ContainerExit(status_reason="", exit_code=0), {"attempts": 3}, 1)
    assert not is_retried(ContainerExit(status_reason="", exit_code=2), {"attempts": 3}, 3)
    assert not is_retried(ContainerExit(status_reason="", exit_code=2), {}, 1)


def test_a_volume_of_the_node_that_is_a_file_system_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "root", lambda: tmp_path)
    volumes = [
        {"name": name, "host": {"sourcePath": path}} for name, path in (("a", "/mnt/shared/x"), ("b", "/b"))
    ]
    points = [
        {"sourceVolume": name, "containerPath": path} for name, path in (("a", "/data/in"), ("b", "/data"))
    ]
    given = {"volumes": volumes, "mountPoints": points}
    outer, inner = storage.mounts(given, {"/mnt/shared": "fs-1"}, tmp_path / "node")
    assert outer == (str(tmp_path / "node/volumes/b"), "/data")
    assert inner == (str(tmp_path / "file-systems/fs-1/x"), "/data/in")


def test_without_mounts_only_whole_paths_are_replaced() -> None:
    node = {
        "argv": ["/data/x", "--set=/data/x", "/database", "s3://a/data", "a:/data:b"],
        "environment": {"PLACE": "/data"},
        "mounts": [("/job-1", "/job"), ("/real", "/data")],
    }
    found = plan._without_mounts(node)
    assert found["argv"] == ["/data/x", "--set=/real/x", "/database", "s3://a/data", "a:/real:b"]
    assert (found["environment"], found["cwd"]) == ({"PLACE": "/real"}, "/job-1")
