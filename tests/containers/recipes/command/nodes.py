"""Starts a user's own command on this machine as a node of a cluster does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from slipway.jobs.code.folder import read_folder
from slipway.jobs.code.packing import pack_project
from tests.jobs.code.projects import write

MODULE = "slipway.containers.recipes.command.train"
ROOT = Path(__file__).resolve().parents[4]


class Node:
    """A node with its own folder for temporary files, and a user's folder packed for it."""

    def __init__(self, tmp_path: Path, files: Mapping[str, str]) -> None:
        self.tmp = tmp_path / "node"
        self.tmp.mkdir()
        self.project = write(tmp_path / "project", files)
        packed = pack_project(read_folder(self.project), tmp_path / "packed")
        self.archive = packed.archive.rename(tmp_path / f"{packed.digest}.tar.gz")

    def words(self, *command: str, **settings: str) -> list[str]:
        given = {"source": str(self.archive), "command": json.dumps(command), **settings}
        words = [sys.executable, "-m", "slipway.containers.runtime.launch", "--module", MODULE, "--"]
        return [*words, *(word for name, value in given.items() for word in ("--set", f"{name}={value}"))]

    def environment(self, **variables: str) -> dict[str, str]:
        own = {"SLIPWAY_JOB": "own", "SLIPWAY_PROCESSES_PER_NODE": "2", "TMPDIR": str(self.tmp)}
        return {**os.environ, **own, **variables}

    def run(
        self, *command: str, settings: Mapping[str, str] | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*command, **(settings or {})),
            cwd=ROOT,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def folders(self, prefix: str) -> list[Path]:
        return [path for path in self.tmp.glob(f"*/{prefix}*") if path.is_dir()]
