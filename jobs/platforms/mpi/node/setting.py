"""Reads what a node knows of its cluster, and names its paths. User data writes node.json; we write the rest.

SLIPWAY_NODE_ROOT is for machines that are only imitated: all paths are then under that folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.given import wrong_fields
from slipway.jobs.words.text import decode_json

ROOT_VARIABLE = "SLIPWAY_NODE_ROOT"
PORT_VARIABLE = "SLIPWAY_NODE_SSH_PORT"
USER = "slipway"
_SSH_PORT = 22


class NotANode(SlipwayError):
    """This machine was not set up as a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePaths:
    root: Path
    ssh_port: int = _SSH_PORT

    @property
    def is_machine(self) -> bool:
        """Return False for an imitated machine, which has no mounts and memory of its own."""
        return self.root == Path("/")

    @property
    def own(self) -> Path:
        return self.root / "etc/slipway"

    @property
    def setup(self) -> Path:
        return self.own / "node.json"

    @property
    def hostfile(self) -> Path:
        """Lists the hosts, one name in each line, the main node first."""
        return self.own / "hostfile"

    @property
    def hosts(self) -> Path:
        return self.root / "etc/hosts"

    @property
    def ssh(self) -> Path:
        return self.root / "etc/ssh"

    @property
    def client(self) -> Path:
        """Tells ssh who the other nodes are, and how this one proves itself."""
        return self.ssh / "ssh_config.d/slipway.conf"

    @property
    def ssh_program(self) -> Path:
        """Runs ssh with that configuration and no other; mpirun starts it."""
        return self.own / "ssh"

    @property
    def host_addresses(self) -> Path:
        """Gives ssh the addresses of the nodes, so that it asks no name service."""
        return self.own / "ssh_hosts.conf"

    @property
    def keys(self) -> Path:
        """Holds the keys in memory, so that no secret of the cluster is ever on a disk.

        Not in /dev/shm: systemd-logind removes a user's files there when the user's last session ends.
        """
        return self.state / "keys"

    @property
    def run(self) -> Path:
        return self.root / "run/slipway"

    @property
    def lock(self) -> Path:
        return self.run / "job.lock"

    @property
    def joined(self) -> Path:
        """Tells the watchdog of the machine image (infra/boot/watch_join.sh) that this node has joined."""
        return self.state / "joined"

    @property
    def state(self) -> Path:
        """Holds files that last until the next boot, and that jobs cannot write."""
        return self.root / "run/slipway-node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Holds node.json."""

    cluster: str
    region: str
    secret_arn: str
    job_role_arn: str  # what jobs may do in AWS
    bucket: str
    file_system_mount: str | None
    nodes: int  # as declared
    mpi: str
    log_group: str


def node_paths(environment: Mapping[str, str] = os.environ) -> NodePaths:
    return NodePaths(
        root=Path(environment.get(ROOT_VARIABLE, "/")),
        ssh_port=int(environment.get(PORT_VARIABLE, _SSH_PORT)),
    )


def read_setup(where: NodePaths) -> Setup:
    try:
        record = decode_json(where.setup.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotANode(
            f"there is no {where.setup}, so this machine is not a node of a cluster",
            hint="user data of the launch template writes it: look at /var/log/cloud-init-output.log",
        ) from None
    except ValueError as error:
        raise NotANode(f"{where.setup} is not JSON ({error})", hint="deploy the cluster again") from None
    if not isinstance(record, dict) or (wrong := wrong_fields(Setup, record)):
        said = ", ".join(wrong) if isinstance(record, dict) else "is no object"
        raise NotANode(f"{where.setup} {said}", hint="deploy the cluster again with this version of Slipway")
    return Setup(**{name: record[name] for name in Setup.__dataclass_fields__})
