"""Is this node what the job was promised? Counted before anything is started, and said to all nodes.

The image needs none of the vendors' tools for it: the devices that the container was given are files.
"""

from __future__ import annotations

import re
from pathlib import Path

from slipway.containers.runtime.contract.settings import ACCELERATOR_FILES, Settings

_EFA_FILES = r"infiniband/uverbs[0-9]+"


def findings(settings: Settings, root: Path) -> list[str]:
    """Return everything that is missing; empty for a healthy node. More than expected is no fault."""
    found = []
    if settings.accelerator is not None:
        pattern = ACCELERATOR_FILES[settings.accelerator]
        found += _missing(f"{settings.accelerator} devices", pattern, settings.accelerators, root)
    found += _missing("EFA devices", _EFA_FILES, settings.efa_interfaces, root)
    return found


def _missing(what: str, pattern: str, expected: int, root: Path) -> list[str]:
    devices = count_devices(pattern, root)
    if devices >= expected:
        return []
    return [f"{devices} of {expected} {what} (/dev/{pattern})"]


def count_devices(pattern: str, root: Path) -> int:
    """Count device files by name; a family's new and old names (accel0, hl0) are not added up."""
    dev = root / "dev"
    return max(
        sum(1 for path in _listed(dev / Path(one).parent) if re.fullmatch(one, str(path.relative_to(dev))))
        for one in pattern.split("|")
    )


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
