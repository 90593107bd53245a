"""The one place that says which version this is; `scripts/release --prepare` changes it.

setup.py asks here when it builds, and `slipway --version` in a checkout. Standard library only.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

VERSION = "1.0.0"
TAG = f"v{VERSION}"
_GIT_SECONDS = 10
_DIGITS = 9  # of the commit; git's own choice grows with the repository


def version_of_source(folder: Path) -> str:
    """Return VERSION where `folder` is the checkout of its tag, and otherwise VERSION and the commit.

    A source distribution keeps the version that it was made with, in PKG-INFO. Whoever builds from neither
    gets 1.0.0+unknown: a copy of some commit must not call itself the release.
    """
    if (folder / ".git").exists():
        return f"{VERSION}{_since_release(folder)}"
    about = folder / "PKG-INFO"
    lines = about.read_text(encoding="utf-8").splitlines() if about.is_file() else []
    return next((line.split()[1] for line in lines if line.startswith("Version: ")), f"{VERSION}+unknown")


def _since_release(folder: Path) -> str:
    """Return a local version of PEP 440, such as +g5fab87c48.dirty, and nothing for the release itself."""
    commit = _git(folder, "rev-parse", f"--short={_DIGITS}", "HEAD")
    if not commit:
        return "+unknown"
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    if changed or TAG not in (_git(folder, "tag", "--points-at", "HEAD") or "").split():
        return f"+g{commit}{'.dirty' if changed else ''}"
    return ""


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_GIT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None
