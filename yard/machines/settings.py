"""Settings of the yard's machines, from environment variables, and what every job needs of this machine."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from slipway.containers.runtime.contract import variables

STOP_VARIABLE = "SLIPWAY_YARD_STOP_SECONDS"  # seconds between SIGTERM and SIGKILL
CLOCK_VARIABLE = "SLIPWAY_YARD_CLOCK"  # real seconds per second of a timeout or a state's time limit
PYTHON_VARIABLE = "SLIPWAY_YARD_PYTHON"  # the interpreter for `python` in a container's command
# The yard has no accelerators or EFA, so launchers do not look for them and ranks use CPUs.
STAND_IN = {variables.STAND_IN: "1"}
STOP_SECONDS = 30.0  # ECS's default stopTimeout
CHECKOUT = Path(str(files("slipway"))).resolve().parent  # or the folder that the package was installed into


def stop_seconds() -> float:
    return float(os.environ.get(STOP_VARIABLE) or STOP_SECONDS)


def real_seconds(batch_seconds: float) -> float:
    return batch_seconds * float(os.environ.get(CLOCK_VARIABLE, "1"))


def interpreter() -> str:
    return os.environ.get(PYTHON_VARIABLE) or sys.executable


def needed() -> list[str]:
    """Return the folders of this machine that every container's command needs: code and interpreters."""
    program = Path(interpreter())
    found = [str(CHECKOUT), sys.prefix, sys.base_prefix, str(program.parent)]
    if (program.parent.parent / "pyvenv.cfg").exists():
        found += [str(program.parent.parent), str(program.resolve().parent.parent)]
    found += linked_from(Path(sysconfig.get_path("purelib")))
    return list(dict.fromkeys(path for path in found if Path(path).is_dir()))


@lru_cache(maxsize=1)  # every job and every boot of a host asks
def linked_from(packages: Path) -> list[str]:
    """Return the folders that installed packages link to: some installers keep packages in a home."""
    return sorted({str(entry.resolve().parent) for entry in packages.glob("*") if entry.is_symlink()})
