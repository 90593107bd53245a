"""slurm.conf without root: all daemons of a cluster are processes of one user on one machine."""

from __future__ import annotations

import os
import pwd
import random
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from slipway.yard.machines.hosts.planning.plain import NODES

# Programs of an AMI, which would act on this machine, so they do not run; a prolog does, in the node's
# environment.
_OF_IMAGES = frozenset(
    ["Epilog", "HealthCheckProgram", "RebootProgram", "SrunEpilog", "SrunProlog", "TaskEpilog", "TaskProlog"]
)
_PORTS = range(20_000, 32_000)  # below the kernel's ephemeral ports
_PROLOG = """\
#!/bin/sh
while IFS= read -r line; do export "${{line#export }}"; done <"{nodes}/$SLURMD_NODENAME.environment"
exec "$SLIPWAY_NODE_ROOT{program}"
"""
_TASK_PROLOG = '#!/bin/sh\nexec cat "{nodes}/$SLURMD_NODENAME.environment"\n'


def own_name() -> str:
    """Return this user's name, which Slurm needs to start anything; "" if it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""


def _free_port() -> int:
    """Return a free port; slurmd listens on it when its node starts."""
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("", port))
            return port
    raise OSError("no port is free")


@dataclass(slots=True)
class PlainDaemons:
    """The ports of one cluster's daemons: each has its own, and keeps it."""

    folder: Path
    port: int = field(default_factory=_free_port)
    accounts_port: int = field(default_factory=_free_port)
    ports: dict[str, int] = field(default_factory=dict)  # node -> port
    host: str = field(default_factory=lambda: socket.gethostname().partition(".")[0])
    user: str = field(default_factory=lambda: own_name() or str(os.geteuid()))

    def lines(self, given: Mapping[str, str], address: str) -> dict[str, str]:
        """Return the settings of slurm.conf that differ from those for isolated hosts."""
        folder = self.folder
        # slurmdbd's address, and the munge socket for it (slurm.conf(5), AccountingStoragePass).
        accounts = {
            "AccountingStoragePort": str(self.accounts_port),
            "AccountingStoragePass": f"{folder}/munge",
        }
        unchanged = {name: value for name, value in given.items() if name not in _OF_IMAGES}
        replaced = {
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
            **(accounts if "AccountingStoragePort" in given else {}),
        }
        return {**unchanged, **replaced}

    def node_words(self, node: str) -> dict[str, str]:
        port = self.ports.setdefault(node, _free_port())
        return {"NodeHostname": self.host, "NodeAddr": "127.0.0.1", "Port": str(port)}

    def write_programs(self, prolog: str | None) -> None:
        """Write the programs that slurmd runs before a job and before each of its tasks."""
        nodes = self.folder / NODES
        nodes.mkdir(exist_ok=True)
        _write(self.folder / "task-prolog", _TASK_PROLOG.format(nodes=nodes))
        if prolog:
            _write(self.folder / "prolog", _PROLOG.format(nodes=nodes, program=prolog))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o700)
