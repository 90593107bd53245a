"""Gives each host that boots systemd its own control group, in every hierarchy that systemd uses.

systemd-nspawn makes the host's groups below the one that it runs in, so two hosts in one group would share
them. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

PREFIX = "slipway-yard-"
# cgroups(7): the single hierarchy of version 2, and version 1's hierarchy for systemd's units.
_OF_SYSTEMD = ("", "name=systemd")
_GROUP = re.compile(rf"{PREFIX}(\d+)-")


def name(yard: int, number: str) -> str:
    """Name a host's group after the yard's process, so that the next yard can tell whose it was."""
    return f"{PREFIX}{yard}-{number}"


def enter(group: str) -> None:
    """Move this process, and all that it starts from now on, into the group."""
    for parent in _parents():
        folder = parent / group
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.procs").write_text("0", encoding="ascii")


def leave(group: str) -> None:
    """Move this process back to its former group, and remove this one."""
    for parent in [parent.parent for parent in _parents() if parent.name == group]:
        (parent / "cgroup.procs").write_text("0", encoding="ascii")
        _remove_tree(parent / group)


def remove(group: str) -> None:
    """Remove the group and the host's groups below it; a group that still has a process stays."""
    for parent in _parents():
        _remove_tree(parent / group)


def remove_left_over() -> None:
    """Remove the groups that killed yards left behind."""
    if not Path("/proc/self/cgroup").exists():  # macOS
        return
    for parent in _parents():
        for folder in parent.glob(f"{PREFIX}*"):
            found = _GROUP.match(folder.name)
            if found and not Path("/proc", found[1]).exists():
                _remove_tree(folder)


def _remove_tree(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()


def _parents() -> Iterator[Path]:
    """Yield this process's group in each hierarchy."""
    mounts = dict(_mounted())
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in _OF_SYSTEMD and controllers in mounts:
            yield mounts[controllers] / path.lstrip("/")


def _mounted() -> Iterator[tuple[str, Path]]:
    """Yield where each of systemd's hierarchies is mounted (proc(5), mountinfo)."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        place = Path(before.split(" ")[4])
        if kind == "cgroup2":
            yield "", place
        elif kind == "cgroup" and "name=systemd" in options:
            yield "name=systemd", place
