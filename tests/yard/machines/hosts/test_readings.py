"""What the yard reads of a host that boots for real: its console, its check-up, its questions for names."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from slipway.yard.machines.hosts import checkup, host_session, host_store
from slipway.yard.machines.hosts.console import MOST_BYTES, Console
from slipway.yard.machines.hosts.host_store import Host, HostInstance
from slipway.yard.machines.hosts.planning import own_units

RESULT = 'result {"v1": {"datasource": "DataSourceEc2", "errors": [%s]}}'
SCRIPTS = "\"('scripts-user', RuntimeError('Runparts: 1 failures (part-001) in 1 attempted commands'))\""
QUERY = struct.Struct(">6H")


def reasons(*lines: str, dropped: tuple[str, ...] = ()) -> list[str]:
    return list(checkup.findings("\n".join(lines), dropped, "install it").reasons)


def test_a_host_on_which_all_came_up_has_no_findings() -> None:
    found = checkup.findings(f"state running\n{RESULT % ''}\n", (), "install it")
    assert (found.reasons, found.is_stuck, found.lacks_programs) == ([], False, False)


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
    """A host that asks, in a VPC of two; a third is in another one."""
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


def test_the_name_server_knows_the_hosts_of_its_vpc(asks: Host) -> None:
    answer = host_session.answer(query("IP-10-0-0-5.ec2.internal"), asks)
    identifier, flags, _, answers, *_ = QUERY.unpack_from(answer)
    assert (identifier, flags & 0x800F, answers) == (7, 0x8000, 1)
    assert answer[-4:] == socket.inet_aton("10.0.0.5")


@pytest.mark.parametrize("name", ["ip-10-0-0-6.ec2.internal", "s3.us-east-1.amazonaws.com"])
def test_the_name_server_says_at_once_that_there_is_no_other_name(asks: Host, name: str) -> None:
    _, flags, _, answers, *_ = QUERY.unpack_from(host_session.answer(query(name), asks))
    assert (flags & 0xF, answers) == (3, 0)


def test_a_name_without_an_ipv6_address_is_known_all_the_same(asks: Host) -> None:
    _, flags, _, answers, *_ = QUERY.unpack_from(
        host_session.answer(query("ip-10-0-0-5.ec2.internal", 28), asks)
    )
    assert (flags & 0xF, answers) == (0, 0)


@pytest.mark.parametrize(
    "asked", [b"", b"\0" * 12, query("a.b")[:-6], query("a.b")[:12] + b"\xc0\x0c\0\1\0\1"]
)
def test_what_is_no_question_gets_no_answer(asks: Host, asked: bytes) -> None:
    with pytest.raises((ValueError, IndexError, struct.error)):
        host_session.answer(asked, asks)


def test_a_host_with_this_machines_files_starts_the_units_of_the_image_word_for_word() -> None:
    plan = own_units.plan(is_slurm=False)
    unit = "/usr/lib/systemd/system/slipway-node.service"
    assert "slipway-node serve" in plan["written"][unit]["text"]
    assert plan["links"][f"{own_units.UNITS}/cloud-init.target.wants/slipway-node.service"] == unit
    assert f"{own_units.UNITS}/timers.target.wants/slipway-watchdog.timer" in plan["links"]
    assert plan["written"]["/usr/lib/slipway/boot.sh"]["mode"] == 0o755
    assert {"/etc/systemd", "/etc/init.d", "/etc/fstab", "/var/lib/cloud"} <= set(plan["removed"])
