"""Hides the homes of this machine's users, with their keys and tokens, from programs that run in the yard.

Only what jobs need stays visible, such as the checkout. `plan` decides, in the yard's process; `hide` acts
where the tree of a node or a host is made. Standard library only.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from slipway.yard.machines.isolation import kernel

# Of all users: if root starts the yard, jobs run as root. /run/user has sockets of ssh agents.
HOMES = ("/root", "/home", "/run/user")
# If a home is itself the checkout, only these known places of secrets can be hidden.
STORES = (
    ".ssh",
    ".aws",
    ".azure",
    ".cargo",
    ".config",
    ".docker",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".netrc",
    ".npmrc",
    ".pypirc",
)
_SYSTEM = ("/usr", "/etc", "/bin", "/lib")  # a service's home may be /, which must not be hidden
_OF_MOUNTS = (  # flags that an ordinary user may not remove from a mount
    (os.ST_NOSUID, kernel.NO_SETUID),
    (os.ST_NODEV, kernel.NO_DEVICES),
    (os.ST_NOEXEC, kernel.NO_PROGRAMS),
)

# What `slipway yard status` says. True: trees can be made on this machine.
WORDS = {
    True: "read-only and empty except for the code that runs; your keys and credentials are hidden",
    False: "not enforced: what runs here can read and write whatever you can, including ~/.ssh and ~/.aws",
}

Plan = Mapping[str, Sequence[str]]

NOTHING: Plan = {"hidden": (), "shown": ()}


def plan(needed: Iterable[str], yard: Path) -> Plan:
    """List what a tree hides, such as the yard's folder with its secret, and what of that it still shows."""
    own = (str(Path.home()), pwd.getpwuid(os.getuid()).pw_dir)
    homes = {os.path.realpath(path) for path in (*HOMES, *own, str(yard))}
    found = {path for path in homes if not any(_is_within(system, path) for system in _SYSTEM)}
    shown = [path for path in needed if any(_is_within(path, home) for home in found)]
    for home in sorted(found):
        if any(_is_within(home, path) for path in needed):
            found.remove(home)
            found |= {f"{home}/{name}" for name in STORES}
    return {"hidden": sorted(found), "shown": sorted(shown)}


def hide(root: Path, plan: Plan, *, read_only: bool) -> None:
    """Empty each hidden folder in the tree below `root`, except for what is shown."""
    shown = [
        (path, os.open(_below(root, path), os.O_PATH))
        for path in plan["shown"]
        if _below(root, path).is_dir()
    ]
    for path in plan["hidden"]:
        _empty(
            _below(root, path),
            is_inside=any(_is_within(path, home) for home in plan["hidden"] if home != path),
        )
    for path, descriptor in shown:
        target = _below(root, path)
        target.mkdir(parents=True, exist_ok=True)
        kernel.bind(f"/proc/self/fd/{descriptor}", target)
        os.close(descriptor)
        if read_only:
            make_read_only(target)


def folder_in(root: Path, path: str) -> Path:
    """Return the folder of a path in the tree below `root`; make it if it is missing."""
    inside = root / path.lstrip("/")
    inside.mkdir(parents=True, exist_ok=True)
    return inside


def make_read_only(mounted: Path) -> None:
    now = os.statvfs(mounted).f_flag
    flags = sum(flag for said, flag in _OF_MOUNTS if now & said)
    kernel.mount("none", mounted, flags=kernel.BIND | kernel.REMOUNT | kernel.READ_ONLY | flags)


def _is_within(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def _empty(target: Path, *, is_inside: bool) -> None:
    """Make the target appear empty. `is_inside`: it is within a folder that was emptied already."""
    if is_inside:
        target.mkdir(parents=True, exist_ok=True)
    elif target.is_symlink():
        return  # the folder behind it is hidden under its own name
    elif target.is_dir():
        kernel.mount("home", target, "tmpfs", options="mode=755")
    elif target.exists():
        kernel.mount("/dev/null", target, flags=kernel.BIND)


def _below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")
