"""slurm.conf where there is no root: all daemons of a cluster are processes of one user on one machine."""

from __future__ import annotations

import os
import pwd
import random
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slipway.yard.machines.hosts.planning.plain import NODES

# Programs of a machine image, which would act on this machine. A prolog is run with a node's environment.
_OF_IMAGES = frozenset(
    ["Epilog", "HealthCheckProgram", "RebootProgram", "SrunEpilog", "SrunProlog", "TaskEpilog", "TaskProlog"]
)
_PORTS = range(20_000, 32_000)  # below those that a kernel gives to whoever connects
_PROLOG = """\
#!/bin/sh
while IFS= read -r line; do export "${{line#export }}"; done <"{nodes}/$SLURMD_NODENAME.environment"
exec "$SLIPWAY_NODE_ROOT{program}"
"""
_TASK_PROLOG = '#!/bin/sh\nexec cat "{nodes}/$SLURMD_NODENAME.environment"\n'


def own_name() -> str:
    """Return the name of this user, without whom Slurm starts nothing; "" where it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""


def _free_port() -> int:
    """Return a port that nobody has now; slurmd takes it when its node starts."""
    for port in random.sample(_PORTS, len(_PORTS)):
        if _can_bind(port):
            return port
    raise OSError("no port is free")


def _can_bind(port: int) -> bool:
    with socket.socket() as trial:
        try:
            trial.bind(("", port))
        except OSError:
            return False
    return True


@dataclass(slots=True)
class PlainDaemons:
    """Says where the daemons of one cluster are found: each has a port of its own, and keeps it."""

    folder: Path
    port: int = field(default_factory=_free_port)
    accounts_port: int = field(default_factory=_free_port)
    ports: dict[str, int] = field(default_factory=dict)  # of the nodes
    host: str = field(default_factory=lambda: socket.gethostname().partition(".")[0])
    user: str = field(default_factory=lambda: own_name() or str(os.geteuid()))

    def lines(self, given: Mapping[str, str], address: str) -> dict[str, str]:
        """Return the lines of slurm.conf that others stand in for on hosts with files of their own."""
        folder = self.folder
        kept = {name: value for name, value in given.items() if name not in _OF_IMAGES}
        own = {
            "SlurmctldPort": str(self.port),
            "SlurmctldHost": f"{self.host}({address})",
            "AuthInfo": f"socket={folder}/munge",
            "SlurmUser": self.user,
            "SlurmdUser": self.user,
            "StateSaveLocation": f"{folder}/state",
            "SlurmdSpoolDir": f"{folder}/%n",
            "SlurmctldPidFile": f"{folder}/slurmctld.pid",
            "SlurmdPidFile": f"{folder}/%n.pid",
            "SlurmdLogFile": f"{folder}/%n.log",
            "TaskProlog": f"{folder}/task-prolog",
            **{f"{word}Program": f"{folder}/{word.lower()}" for word in ("Resume", "Suspend")},
            "ResumeFailProgram": f"{folder}/failed",
            **({"Prolog": f"{folder}/prolog"} if "Prolog" in given else {}),
            **(self._accounts_lines() if "AccountingStoragePort" in given else {}),
        }
        return {**kept, **own}

    def _accounts_lines(self) -> dict[str, str]:
        """Return where slurmdbd is, and by which munge it is asked (slurm.conf(5), AccountingStoragePass)."""
        return {
            "AccountingStoragePort": str(self.accounts_port),
            "AccountingStoragePass": f"{self.folder}/munge",
        }

    def node_words(self, node: str) -> dict[str, str]:
        port = self.ports.setdefault(node, _free_port())
        return {"NodeHostname": self.host, "NodeAddr": "127.0.0.1", "Port": str(port)}

    def write_programs(self, prolog: str | None) -> None:
        """Write what slurmd runs before a job and before each of its tasks."""
        nodes = self.folder / NODES
        nodes.mkdir(exist_ok=True)
        _write(self.folder / "task-prolog", _TASK_PROLOG.format(nodes=nodes))
        if prolog:
            _write(self.folder / "prolog", _PROLOG.format(nodes=nodes, program=prolog))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o700)
