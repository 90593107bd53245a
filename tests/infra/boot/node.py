"""Runs a node's scripts here, with programs that record how they were called."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipway.infra.clusters import CLUSTERS
from slipway.infra.declare.types import FileSystem
from slipway.infra.patterns.nodes.boot import (
    ECS_MEMBERSHIP,
    MPI_MEMBERSHIP,
    SLURM_MEMBERSHIP,
    Membership,
    boot_parameters,
    mounted,
)
from slipway.infra.patterns.storage.file_systems import NO_FILES, SharedFiles

SCRIPTS = Path(__file__).parents[3] / "infra" / "boot"
PROGRAMS = (
    "systemctl",
    "mdadm",
    "mkfs.xfs",
    "mount",
    "lsblk",
    "udevadm",
    "aws",
    "curl",
    "sleep",
)


class Node:
    """Make the programs; `answers` says what each prints, and others print nothing."""

    def __init__(self, folder: Path, parameters: dict[str, Any], **answers: str) -> None:
        self.folder, self.log = folder, folder / "calls"
        self.log.touch()
        if "files" in parameters:
            parameters["files"]["path"] = str(folder / "shared")
        (folder / "node.json").write_text(json.dumps(parameters), encoding="utf-8")
        (folder / "instance-id").write_text("i-0123456789abcdef0\n", encoding="utf-8")
        for name in PROGRAMS:
            self.program(name, answers.get(name.replace(".", "_"), ""))
        for name in ("blkid", "mountpoint", "systemd-detect-virt"):  # no disk is known, nothing is mounted
            self.program(name, code=1)
        (folder / "proc" / "sys" / "vm").mkdir(parents=True)
        (folder / "proc" / "sys" / "vm" / "nr_hugepages").write_text("0\n", encoding="utf-8")
        self.up(60)

    def program(self, name: str, answer: str = "", code: int = 0) -> None:
        path = self.folder / name
        said = f'cat <<"END"\n{answer}\nEND\n' if answer else ""
        body = f'#!/bin/bash\necho "{name} $*" >> "{self.log}"\n{said}exit {code}\n'
        path.write_text(body, encoding="utf-8")
        path.chmod(0o755)

    def active(self, *units: str) -> None:
        """Let systemctl say that only these units are active."""
        path = self.folder / "systemctl"
        lines = [
            "#!/bin/bash",
            f'echo "systemctl $*" >> "{self.log}"',
            '[[ "$1" == is-active ]] || exit 0',
            *(f"case ' '\"$*\"' ' in *' {unit} '*) exit 0 ;; esac" for unit in units),
            "exit 3",
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def runs(self, program: str, group: str) -> None:
        """Let the program run in this control group."""
        process = self.folder / "proc" / "4711"
        process.mkdir()
        (process / "comm").write_text(f"{program}\n", encoding="utf-8")
        (process / "cgroup").write_text(f"0::{group}\n", encoding="utf-8")

    def up(self, minutes: int) -> None:
        (self.folder / "proc").mkdir(exist_ok=True)
        (self.folder / "proc" / "uptime").write_text(f"{minutes * 60 + 7}.21 9.05\n", encoding="utf-8")

    def run(self, script: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **more,
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "SLIPWAY_PARAMETERS": str(self.folder / "node.json"),
            "SLIPWAY_STATE": str(self.folder / "state"),
            "SLIPWAY_ROOT": str(self.folder),
            "SLIPWAY_INSTANCE_ID": str(self.folder / "instance-id"),
            "SLIPWAY_SMT_CONTROL": str(self.folder / "smt"),
            "SLIPWAY_PROC": str(self.folder / "proc"),
            "SLIPWAY_VENV": str(self.folder / "venv"),
        }
        command = ["bash", str(SCRIPTS / script)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def calls(self, program: str) -> list[str]:
        calls = self.log.read_text(encoding="utf-8").splitlines()
        return [call.partition(" ")[2] for call in calls if call.partition(" ")[0] == program]

    def reason(self) -> str:
        path = self.folder / "state" / "reason"
        return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def parameters(
    sort: FileSystem = FileSystem.NONE,
    membership: Membership = ECS_MEMBERSHIP,
    group: str | None = None,
    **settings: Any,
) -> dict[str, Any]:
    files = SharedFiles(
        kind=sort,
        file_system_id="fs-1",
        mount_point="/mnt/shared",
        mount_name="abcd",
        security_group_id="sg-1",
        ports=(),
    )
    shown = NO_FILES if sort is FileSystem.NONE else files
    return boot_parameters(replace(CLUSTERS[0], join_minutes=30, **settings), shown, membership, group)


def mpi_parameters(sort: FileSystem = FileSystem.NONE, smt: str = "on") -> dict[str, Any]:
    return {**parameters(sort, MPI_MEMBERSHIP, group="slipway-c6i"), "smt": smt}


def slurm_parameters(scratch: SharedFiles | None = None) -> dict[str, Any]:
    told = parameters(FileSystem.EFS, SLURM_MEMBERSHIP)
    return {**told, **({"scratch_files": mounted(scratch)} if scratch else {})}
