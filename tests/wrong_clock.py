"""Starts a program with a wrong clock: only the time of day, as on a machine whose clock was never set."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


def library(folder: Path) -> Path:
    """Return a library for LD_PRELOAD; SKEW_SECONDS says by how much the clock is wrong."""
    compiler = shutil.which("cc")
    assert compiler is not None, "there is no C compiler: python scripts/set_up.py installs gcc"
    made = folder / "wrong_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(SOURCE)], check=True)
    return made


def variables(made: Path, seconds: int) -> dict[str, str]:
    return {"LD_PRELOAD": str(made), "SKEW_SECONDS": str(seconds)}
