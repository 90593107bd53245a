"""What a step sees around the machine's own files: /proc, /sys, /dev, /run, /tmp, and this machine's network
settings. None of it is in the image afterwards. Standard library only. A further thing is a line in _fill.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway.yard.machines.isolation import kernel

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "ptmx": "pts/ptmx"}
# linux/capability.h: NET_ADMIN, SYS_MODULE, SYS_RAWIO, SYS_ADMIN, SYS_BOOT, SYS_TIME, MKNOD, SYSLOG.
# A step is root of its files, and must not load modules into this machine's kernel, or set its clock.
GIVEN_UP = (12, 16, 17, 21, 22, 25, 27, 34)
RESOLVER = Path("/etc/resolv.conf")
_READ_ONLY = kernel.BIND | kernel.REMOUNT | kernel.READ_ONLY


def enter(plan: Mapping[str, Any]) -> None:
    """Make this process's tree the machine's. Needs a mount namespace of its own."""
    root = Path(plan["root"])
    kernel.mount("none", Path("/"), flags=kernel.PRIVATE | kernel.RECURSIVE)
    if plan["upper"]:
        options = f"lowerdir={plan['root']},upperdir={plan['upper']},workdir={plan['work']}"
        options += "" if plan["is_root"] else ",userxattr"
        root = Path(plan["merged"])
        kernel.mount("machine", root, "overlay", options=options)
    else:
        kernel.mount(str(root), root, flags=kernel.BIND)
    _fill(root, plan)
    kernel.pivot_root(root)
    _name_servers(plan["resolver"])


def _fill(root: Path, plan: Mapping[str, Any]) -> None:
    kernel.mount("proc", _folder(root, "proc"), "proc")
    # What lies below it (control groups) stays out; an ordinary user may not leave it out.
    whole = 0 if plan["is_root"] else kernel.RECURSIVE
    kernel.mount("/sys", _folder(root, "sys"), flags=kernel.BIND | whole)
    kernel.mount("dev", _folder(root, "dev"), "tmpfs", options="mode=755")
    _devices(root / "dev")
    for source, target in ((plan["run"], "run"), (plan["tmp"], "tmp"), (plan["tmp"], "var/tmp")):
        kernel.mount(source, _folder(root, target), flags=kernel.BIND)
    for source, target in plan["shared"]:
        kernel.mount(source, _folder(root, target), flags=kernel.BIND)
    for source, target in plan["readable"]:
        kernel.mount(source, _folder(root, target), flags=kernel.BIND)
        if plan["is_root"]:
            kernel.mount("none", root / target, flags=_READ_ONLY)
    if plan["is_root"]:
        settings = root / "proc/sys"
        kernel.mount(str(settings), settings, flags=kernel.BIND)
        for path in (settings, root / "sys"):
            kernel.mount("none", path, flags=_READ_ONLY)


def _devices(dev: Path) -> None:
    for name in DEVICES:
        (dev / name).touch()
        kernel.mount(f"/dev/{name}", dev / name, flags=kernel.BIND)
    for name, target in LINKS.items():
        (dev / name).symlink_to(target)
    (dev / "shm").mkdir()
    kernel.mount("shm", dev / "shm", "tmpfs", options="mode=1777")
    (dev / "pts").mkdir()
    kernel.mount("devpts", dev / "pts", "devpts", options="newinstance,ptmxmode=0666")


def _folder(root: Path, name: str) -> Path:
    """A link here would lead out of the tree."""
    path = root / name
    if path.is_symlink():
        raise ValueError(
            f"/{name} of the image is a symbolic link; the yard cannot mount there, so make it a folder"
        )
    path.mkdir(parents=True, exist_ok=True)
    return path


def _name_servers(resolver: str) -> None:
    """Bind resolv.conf, or, if it is a link (mostly into /run), write the file that it points to."""
    if RESOLVER.is_symlink():
        end = Path(os.path.realpath(RESOLVER))
        end.parent.mkdir(parents=True, exist_ok=True)
        end.write_text(Path(resolver).read_text(encoding="utf-8"), encoding="utf-8")
        return
    RESOLVER.touch()
    kernel.mount(resolver, RESOLVER, flags=kernel.BIND)
    kernel.mount("none", RESOLVER, flags=_READ_ONLY)
