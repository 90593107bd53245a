"""What `slipway --version` says: the version, the commit where one is known, and the extras."""

from __future__ import annotations

import re
import subprocess
from importlib import metadata
from pathlib import Path

from slipway.jobs.words.installation import NAME, PACKAGE, installed_extras

_GIT_SECONDS = 10
# What setuptools-scm appends to a version between two tags: 0.1.1.dev774+g1573bcd95.d20261123
_COMMIT = re.compile(r"\+g([0-9a-f]+)")


def describe() -> str:
    version = installed_version()
    commit = _checked_out(PACKAGE.resolve().parent) or _built_from(version)
    about = [f"commit {commit}"] if commit else []
    about.append(f"extras: {', '.join(installed_extras()) or 'none'}")
    return f"{version} ({'; '.join(about)})"


def installed_version() -> str:
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return "not installed, but on the path"


def _built_from(version: str) -> str | None:
    found = _COMMIT.search(version)
    return found[1] if found else None


def _checked_out(folder: Path) -> str | None:
    """Ask git: a checkout moves on after it was installed."""
    if not (folder / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_GIT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout.strip() or None
