"""Nodes on this machine: folders of their own below a temporary root, and a real sshd each."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from slipway.jobs.platforms.mpi.node.join import write_roster
from slipway.jobs.platforms.mpi.node.setting import PORT_VARIABLE, ROOT_VARIABLE, NodePaths, Setup
from slipway.jobs.platforms.mpi.node.ssh_trust import cluster_user, establish, server_text
from slipway.jobs.words.mpi import Member, host_name
from tests.containers.forks import free_port
from tests.yard.conftest import REGION

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
SECRET = "s" * 64
Start = Callable[..., "Node"]
SETUP = Setup(
    cluster="c6i",
    region=REGION,
    secret_arn="arn",
    job_role_arn="arn",
    bucket="slipway-nodes",
    file_system_mount=None,
    nodes=2,
    mpi="open-mpi",
    log_group="/slipway/c6i",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    where: NodePaths
    member: Member

    def ssh(self, *words: str) -> subprocess.CompletedProcess[str]:
        """From this node to whichever its roster names."""
        return subprocess.run(
            [self.where.ssh_program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def knows(self, members: Sequence[Member]) -> None:
        write_roster(self.where, members)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A node at an address of this machine; all have one port, as those of a cluster have."""
    if SSHD is None:
        pytest.skip("sshd is not installed")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where sshd shuts itself in
    port = free_port()
    servers: list[subprocess.Popen[str]] = []

    def begin(address: str, secret: str = SECRET) -> Node:
        where = NodePaths(root=tmp_path / f"{address}-{len(servers)}", ssh_port=port)
        member = Member(name=host_name(address), address=address, instance_id=f"i-{len(servers)}")
        establish(where, secret, [member.name, address], cluster_user())
        write_roster(where, [member])
        servers.append(serve(where, address))
        return Node(where=where, member=member)

    yield begin
    for server in servers:
        server.terminate()
        server.communicate()


def serve(where: NodePaths, address: str) -> subprocess.Popen[str]:
    lines = [
        f"ListenAddress {address}:{where.ssh_port}",
        f"PidFile {where.root / 'sshd.pid'}",
        "StrictModes no",  # the temporary folder is everybody's
    ]
    configuration = where.root / "sshd_config"
    configuration.write_text(server_text(where, cluster_user()) + "\n".join(lines) + "\n")
    assert SSHD is not None
    server = subprocess.Popen(
        [SSHD, "-D", "-e", "-f", configuration], stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
    )
    assert server.stderr is not None
    for line in server.stderr:
        if "listening" in line:
            return server
    raise AssertionError(f"sshd does not listen on {address}")


@pytest.fixture
def as_node(monkeypatch: pytest.MonkeyPatch) -> Callable[[Node], None]:
    """Our own environment becomes the node's, and with it that of what it starts over ssh."""

    def become(node: Node) -> None:
        monkeypatch.setenv(ROOT_VARIABLE, str(node.where.root))
        monkeypatch.setenv(PORT_VARIABLE, str(node.where.ssh_port))

    return become
