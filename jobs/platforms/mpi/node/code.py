"""Where the code of a job lies on a node: fetched by its digest once, where all nodes find it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slipway.jobs.platforms.code_archive import ensure_unpacked
from slipway.jobs.platforms.mpi.node.setting import NodePaths, Setup


def code_folder(where: NodePaths, setup: Setup, digest: str) -> Path:
    """Return the folder for code: on shared files if there are any, else where only the jobs' user writes."""
    if setup.file_system_mount:
        return Path(setup.file_system_mount) / "slipway" / "code" / digest
    return where.run / "code" / digest


def ensure_code(where: NodePaths, setup: Setup, digest: str, s3: Any) -> Path:
    return ensure_unpacked(code_folder(where, setup, digest), digest, setup.bucket, s3)
