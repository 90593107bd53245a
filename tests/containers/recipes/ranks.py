"""Runs all ranks of a preparation at once, each told its place as a launcher would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def run_ranks(module: str, data: Path, world: int, *settings: str) -> list[subprocess.CompletedProcess[str]]:
    arguments = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, "-m", module, *arguments]
    ranks = [subprocess.Popen(command, env=place(data, rank, world), **PIPES) for rank in range(world)]
    ended = []
    for rank in ranks:
        out, err = rank.communicate(timeout=300)
        ended.append(subprocess.CompletedProcess(command, rank.returncode, out, err))
    return ended


def place(data: Path, rank: int, world: int) -> dict[str, str]:
    told = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
    told |= {"SLIPWAY_NODE": rank, "SLIPWAY_NODES": world, "MASTER_PORT": 29500}
    texts = {name: str(value) for name, value in told.items()}
    return {**os.environ, **texts, "MASTER_ADDR": "127.0.0.1", "SLIPWAY_JOB": "p", "SLIPWAY_DATA": str(data)}
