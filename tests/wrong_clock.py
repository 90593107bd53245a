"""A program whose clock is wrong: the time of day alone, as where a machine's clock was never set."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


def library(folder: Path) -> Path:
    """Return what LD_PRELOAD takes; SKEW_SECONDS says by how much the clock is wrong."""
    compiler = shutil.which("cc")
    assert compiler is not None, "there is no C compiler: python scripts/set_up.py installs gcc"
    made = folder / "wrong_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(SOURCE)], check=True)
    return made


def variables(made: Path, seconds: int) -> dict[str, str]:
    return {"LD_PRELOAD": str(made), "SKEW_SECONDS": str(seconds)}
