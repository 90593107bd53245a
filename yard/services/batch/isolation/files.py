"""A node's file tree: this machine's, but for homes, /tmp, /dev/shm, /proc, /etc/hosts and the job's mounts.

Nothing is ever made in this machine's folders: where a mount lies below one of them, that folder is mirrored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway.yard.machines.isolation import home, kernel

_OWN = ("/tmp", "/proc", "/var/tmp")  # noqa: S108 - the node's, not ours


def enter(node: Mapping[str, Any], keep: Sequence[str], homes: home.Plan) -> None:
    """Make this process's tree the node's. Needs a mount namespace of its own."""
    folder = Path(node["folder"])
    root = folder / "root"
    root.mkdir()
    kernel.mount("none", Path("/"), flags=kernel.PRIVATE | kernel.RECURSIVE)
    kernel.mount("node", root, "tmpfs", options="mode=755")
    mounts = {target: source for source, target in node["mounts"]}
    _mirror(Path("/"), root, frozenset(Path(path) for path in (*_OWN, *mounts)))
    home.hide(root, homes, read_only=True)
    kernel.mount("proc", _folder(root, "/proc"), "proc")
    kernel.mount("shm", root / "dev/shm", "tmpfs", options=f"mode=1777,size={node['shared_memory_mib']}m")
    for target, source in {**_private(folder), **mounts}.items():
        _bind(source, _folder(root, target))
    _bind(str(folder / "hosts"), root / "etc/hosts")
    for path in keep:
        _keep(root, path)
    kernel.pivot_root(root)


def _private(folder: Path) -> dict[str, str]:
    return {"/tmp": str(folder / "tmp"), "/var/tmp": str(folder / "tmp")}  # noqa: S108


def _mirror(real: Path, copy: Path, hidden: frozenset[Path]) -> None:
    """Each entry as it is, but those that are hidden, and those that hold something hidden."""
    for entry in os.scandir(real):
        path, target = Path(entry.path), copy / entry.name
        if entry.is_symlink():
            target.symlink_to(path.readlink())
        elif path in hidden:
            target.mkdir()
        elif any(path in other.parents for other in hidden):
            target.mkdir()
            _mirror(path, target, hidden)
        elif entry.is_dir():
            target.mkdir()
            _bind(str(path), target)
        elif entry.is_file():
            target.touch()
            _bind(str(path), target)


def _keep(root: Path, path: str) -> None:
    """Keep, read-only, what the node needs and its own /tmp would hide, such as the checkout."""
    if any(Path(own) in Path(path).parents for own in _OWN):
        kept = _folder(root, path)
        _bind(path, kept)
        home.make_read_only(kept)


def _folder(root: Path, path: str) -> Path:
    inside = root / path.lstrip("/")
    inside.mkdir(parents=True, exist_ok=True)
    return inside


def _bind(source: str, target: Path) -> None:
    kernel.mount(source, target, flags=kernel.BIND | kernel.RECURSIVE)
