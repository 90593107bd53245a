"""The yard reads a booted host's state right, and a host without a boot has an aws command."""

from __future__ import annotations

import base64
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.words.names import NOT_JOINED_METRIC
from slipway.yard.machines.hosts import host_session, host_store
from slipway.yard.machines.hosts import host_session as checkup
from slipway.yard.machines.hosts.host_store import MOST_BYTES, Console, Host, HostInstance
from slipway.yard.machines.hosts.planning import aws_command, own_files, real_boot
from tests.infra.boot.node import Node, mpi_parameters
from tests.yard.conftest import REGION, RunningYard, point_at

RESULT = 'result {"v1": {"datasource": "DataSourceEc2", "errors": [%s]}}'
SCRIPTS = "\"('scripts-user', RuntimeError('Runparts: 1 failures (part-001) in 1 attempted commands'))\""
QUERY = struct.Struct(">6H")


def reasons(*lines: str, dropped: tuple[str, ...] = ()) -> list[str]:
    return list(checkup.findings("\n".join(lines), dropped, "install it").reasons)


def test_failed_user_data_is_told_once_and_not_again_as_its_unit() -> None:
    (reason,) = reasons("state degraded", "unit cloud-final.service", RESULT % SCRIPTS)
    assert reason.startswith(
        "scripts-user of cloud-init failed: RuntimeError('Runparts: 1 failures (part-001)"
    )
    assert reason.endswith("what it said: /var/log/cloud-init-output.log of the host")


def test_what_is_missing_failed_or_dropped_is_named() -> None:
    found = reasons("state degraded", "unit ecs.service", "missing mpirun", dropped=("node.service",))
    assert found == [
        "mpirun is not there; install it",
        "ecs.service failed; what it said: journalctl -u ecs.service, on the host",
        "node.service was not started: systemd found it ordered in a circle",
    ]


def test_only_a_system_that_waits_for_its_administrator_is_stuck() -> None:
    assert checkup.findings("state maintenance", (), "").is_stuck
    assert not checkup.findings("state degraded\nunit ssh.service", (), "").is_stuck
    found = checkup.findings(f"state running\n{RESULT % ''}\n", (), "install it")
    assert (found.reasons, found.is_stuck, found.lacks_programs) == ([], False, False)


def test_a_host_that_lacks_a_program_is_told_from_one_whose_unit_failed() -> None:
    assert checkup.findings("state running\nmissing mpirun", (), "").lacks_programs
    assert not checkup.findings("state degraded\nunit ssh.service", (), "").lacks_programs


def test_a_console_is_plain_text_and_keeps_its_end() -> None:
    console = Console()
    assert console.add("[\x1b[0;32m  OK  \x1b[0m] Reached target\r\n") == "[  OK  ] Reached target"
    for _ in range(2000):
        console.add("x" * 99)
    assert len(console.text) == MOST_BYTES
    console.add("systemd[1]: multi-user.target: Job a.service/start deleted to break ordering cycle starting")
    console.add("systemd[1]: multi-user.target: Job a.service/start deleted to break ordering cycle starting")
    assert console.dropped_units() == ["a.service"]
    console.begin_boot()
    assert console.dropped_units() == []


def query(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return QUERY.pack(7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", kind, 1)


@pytest.fixture
def asks() -> Iterator[Host]:
    """Make a host that asks, in a VPC of two hosts; a third one is in another VPC."""
    made = [
        Host(instance=recorded(vpc, last), number=last, root="")
        for vpc, last in (("vpc-1", 4), ("vpc-1", 5), ("vpc-2", 6))
    ]
    host_store.hosts.update({host.instance.id: host for host in made})
    yield made[0]
    for host in made:
        host_store.hosts.pop(host.instance.id)


def recorded(vpc: str, last: int) -> HostInstance:
    texts: dict[str, Any] = dict.fromkeys(HostInstance.__dataclass_fields__, "")
    own = {"id": f"i-{last}", "vpc": vpc, "address": f"10.0.0.{last}", "prefix_length": 16, "tags": {}}
    return HostInstance(**{**texts, **own, "hostname": f"ip-10-0-0-{last}.ec2.internal"})


def test_a_checkup_that_cannot_begin_leaves_no_pipe_open() -> None:
    data = base64.b64encode(b"#cloud-config\nwrite_files: [{content: without a path}]").decode()
    link: Any = "not reached"
    host = Host(instance=replace(recorded("vpc-1", 4), user_data=data), number=4, root="", link=link)
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(KeyError, match="path"):
        checkup.start(host, lambda found: None)
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_the_name_server_knows_the_hosts_of_its_vpc(asks: Host) -> None:
    answer = host_session.answer(query("IP-10-0-0-5.ec2.internal"), asks)
    identifier, flags, _, answers, *_ = QUERY.unpack_from(answer)
    assert (identifier, flags & 0x800F, answers) == (7, 0x8000, 1)
    assert answer[-4:] == socket.inet_aton("10.0.0.5")


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        ("ip-10-0-0-6.ec2.internal", 1, 3),
        ("s3.us-east-1.amazonaws.com", 1, 3),
        ("ip-10-0-0-5.ec2.internal", 28, 0),  # an IPv6 address, which a known name lacks
    ],
)
def test_the_name_server_says_at_once_that_there_is_no_other_name(
    asks: Host, name: str, kind: int, code: int
) -> None:
    _, flags, _, answers, *_ = QUERY.unpack_from(host_session.answer(query(name, kind), asks))
    assert (flags & 0xF, answers) == (code, 0)


@pytest.mark.parametrize(
    "asked", [b"", b"\0" * 12, query("a.b")[:-6], query("a.b")[:12] + b"\xc0\x0c\0\1\0\1"]
)
def test_what_is_no_question_gets_no_answer(asks: Host, asked: bytes) -> None:
    with pytest.raises((ValueError, IndexError, struct.error)):
        host_session.answer(asked, asks)


def test_a_host_with_this_machines_files_starts_the_units_of_the_image_word_for_word() -> None:
    plan = real_boot.units(is_slurm=False)
    unit = "/usr/lib/systemd/system/slipway-node.service"
    assert "slipway-node serve" in plan["written"][unit]["text"]
    assert plan["links"][f"{real_boot.UNITS}/cloud-init.target.wants/slipway-node.service"] == unit
    assert f"{real_boot.UNITS}/timers.target.wants/slipway-watchdog.timer" in plan["links"]
    assert plan["written"]["/usr/lib/slipway/boot.sh"]["mode"] == 0o755
    assert {"/etc/systemd", "/etc/init.d", "/etc/fstab", "/var/lib/cloud"} <= set(plan["removed"])


# A host with this machine's files reports the same to AWS as a node of a baked image, by the same scripts.


@pytest.fixture
def node(tmp_path: Path, yard: RunningYard, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Make a node whose only aws command is the one in its virtual environment, as on a host."""
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


def test_a_host_that_is_idle_or_has_not_joined_tells_cloudwatch_so(node: Node, yard: RunningYard) -> None:
    done = node.run("report_idle.sh", **yard.variables())
    assert (done.returncode, done.stderr) == (0, "")
    assert reported(yard, "IdleNodes") == [1.0]
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
