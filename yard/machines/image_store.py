"""The store of baked AMIs: `<yard home>/machine-images/<AMI id>/root`, with manifest.json next to it.

A host of the yard whose AMI is here starts from that root; `slipway yard down` deletes all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway.yard.state import MACHINE_IMAGES, home, remove_tree

MANIFEST = "manifest.json"


def folder() -> Path:
    return home() / MACHINE_IMAGES


def workshop(name: str) -> Path:
    """Make the folder of a bake, on the same disk as the store, so that keeping its root is only a rename."""
    path = folder() / f".bake-{name}"
    remove_tree(path)
    path.mkdir(parents=True, mode=0o700)
    return path


def keep(machine: Path, ami_ids: list[str], manifest: Mapping[str, Any]) -> None:
    """Store the bake as the first AMI; its copies in other regions become links to it."""
    first = folder() / ami_ids[0]
    (machine / MANIFEST).write_text(json.dumps({**manifest, "amis": ami_ids}, indent=2), encoding="utf-8")
    machine.chmod(0o755)
    machine.rename(first)
    for other in ami_ids[1:]:
        (folder() / other).symlink_to(first.name, target_is_directory=True)


def root_of(ami_id: str) -> Path | None:
    """Return the root of the AMI, or None if it was not baked in this yard."""
    root = folder() / ami_id / "root"
    return root if root.is_dir() else None


def forget() -> None:
    remove_tree(folder())
