"""Makes users' folders for tests, and the settings that git needs on a machine without any."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *who, *words], cwd=folder, env=environment, check=True, capture_output=True)
