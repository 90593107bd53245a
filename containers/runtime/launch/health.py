"""Is this node what the job was promised? Counted before anything is started, and said to all nodes.

The image needs none of the vendors' tools for it: the devices that the container was given are files.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from slipway.containers.runtime.contract.settings import ACCELERATOR_FILES, Settings

_EFA_FILES = r"infiniband/uverbs[0-9]+"


def findings(settings: Settings, root: Path) -> list[str]:
    """Return everything that is missing; empty for a healthy node. More than expected is no fault."""
    found: list[str] = []
    if settings.is_stand_in:
        return found
    if settings.accelerator is not None:
        pattern = ACCELERATOR_FILES[settings.accelerator]
        found += _missing(f"{settings.accelerator} devices", pattern, settings.accelerators, root)
    found += _missing("EFA devices", _EFA_FILES, settings.efa_interfaces, root)
    return found


def notes(settings: Settings, root: Path) -> list[str]:
    """Say what a node with accelerators has, and what of it is less than promised but lets a job run."""
    if settings.accelerator is None:
        return []
    promised = f"{settings.accelerators} {settings.accelerator} devices"
    if settings.is_stand_in:
        return [f"this is a yard: processors stand in for {promised}"]
    devices = count_devices(ACCELERATOR_FILES[settings.accelerator], root)
    pages = huge_pages(root)
    kinds = (f"{devices} {settings.accelerator} devices", f"{count_devices(_EFA_FILES, root)} EFA devices")
    said = [f"this node has {', '.join(kinds)}, {numa_domains(root)} NUMA domains, {pages} huge pages"]
    if pages < settings.huge_pages:
        said.append(
            f"warning: {pages} of {settings.huge_pages} huge pages are reserved on this node: collectives "
            "may be slow or fail; its image sets vm.nr_hugepages"
        )
    return said


def huge_pages(root: Path) -> int:
    with suppress(OSError, ValueError):
        return int((root / "proc/sys/vm/nr_hugepages").read_text())
    return 0


def numa_domains(root: Path) -> int:
    return len(list((root / "sys/devices/system/node").glob("node[0-9]*")))


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
