"""A host with this machine's files tells AWS what a node of a baked image tells it, by the same scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.words.names import NOT_JOINED_METRIC
from slipway.yard.machines.hosts.planning import aws_command, own_files
from tests.infra.boot.node import Node, mpi_parameters
from tests.yard.conftest import REGION, RunningYard, point_at


@pytest.fixture
def node(tmp_path: Path, yard: RunningYard, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node whose only aws is the one in its environment, as a host is given it."""
    point_at(yard, monkeypatch)
    others = (each for each in os.environ["PATH"].split(os.pathsep) if not Path(each, "aws").exists())
    monkeypatch.setenv("PATH", os.pathsep.join(others))
    made = Node(tmp_path, mpi_parameters())
    made.program("aws")
    folder = tmp_path / "venv" / "bin"
    folder.mkdir(parents=True)
    (tmp_path / "aws").unlink()
    text = own_files.program(str(Path(sys.prefix)), own_files.AWS_MODULE)["text"]
    (folder / "aws").write_text(text, encoding="utf-8")
    (folder / "aws").chmod(0o755)
    return made


def reported(yard: RunningYard, metric: str, *dimensions: dict[str, str]) -> list[float]:
    now = datetime.now(UTC)
    found: dict[str, Any] = yard.client("cloudwatch").get_metric_statistics(
        Namespace="Slipway",
        MetricName=metric,
        Dimensions=[{"Name": "Cluster", "Value": mpi_parameters()["cluster"]}, *dimensions],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(hours=1),
        Period=60,
        Statistics=["Maximum"],
    )
    return [point["Maximum"] for point in found["Datapoints"]]


def test_an_idle_host_tells_cloudwatch_so(node: Node, yard: RunningYard) -> None:
    done = node.run("report_idle.sh", **yard.variables())
    assert (done.returncode, done.stderr) == (0, "")
    assert reported(yard, "IdleNodes") == [1.0]


def test_a_host_that_has_not_joined_tells_cloudwatch_why(node: Node, yard: RunningYard) -> None:
    node.up(7)
    assert node.run("watch_join.sh", **yard.variables()).returncode == 0
    assert reported(yard, NOT_JOINED_METRIC) == [1.0]
    assert reported(yard, NOT_JOINED_METRIC, {"Name": "Reason", "Value": "slipway-node"}) == [1.0]


def aws(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", aws_command.__name__, *words, "--region", REGION]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_other_calls_go_to_aws_as_they_are_written(node: Node) -> None:
    leave = ("autoscaling", "terminate-instance-in-auto-scaling-group")
    refused = aws(*leave, "--instance-id", "i-0123456789abcdef0", "--should-decrement-desired-capacity")
    assert refused.returncode == 254
    assert "TerminateInstanceInAutoScalingGroup operation" in refused.stderr
    said = aws("sts", "get-caller-identity")
    assert '"Account"' in said.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("s3",), "say a service and an operation"),
        (("sts", "get-caller"), "sts has no get-caller"),
        (("sts", "get-caller-identity", "--output", "text"), "get-caller-identity has no --output"),
        (("sts", "get-caller-identity", "now"), "'now' follows no name"),
    ],
)
def test_what_it_does_not_know_is_refused_by_name(
    node: Node, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert aws_command.main(words) == aws_command.USAGE_CODE
    assert said in capsys.readouterr().err
