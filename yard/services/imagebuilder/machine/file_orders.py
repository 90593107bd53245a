"""Files and folders as a component's steps make them, seen from inside the machine's file tree.

Standard library only: it runs where this machine's files are out of sight. Another sort is a line of SORTS.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Order = Mapping[str, Any]


def carry_out(order: Order) -> None:
    SORTS[order["do"]](order)


def _create_file(order: Order) -> None:
    path = _free(order)
    path.write_text(str(order.get("content", "")), encoding=order.get("encoding", "utf-8"))
    _own(path, order)


def _append_file(order: Order) -> None:
    path = Path(order["path"])
    with path.open("a", encoding=order.get("encoding", "utf-8")) as file:
        file.write(str(order.get("content", "")))
    _own(path, order)


def _create_folder(order: Order) -> None:
    path = Path(order["path"])
    path.mkdir(parents=True, exist_ok=order.get("overwrite", True))
    _own(path, order)


def _create_symlink(order: Order) -> None:
    path = Path(order["path"])
    if order.get("force"):
        path.unlink(missing_ok=True)
    path.symlink_to(order["target"])


def _copy_file(order: Order) -> None:
    target = _free(order, "destination")
    shutil.copy2(order["source"], target)
    _own(target, order)


def _move_file(order: Order) -> None:
    shutil.move(order["source"], _free(order, "destination"))


def _place(order: Order) -> None:
    path = _free(order)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(order["source"], path)


def _delete_file(order: Order) -> None:
    Path(order["path"]).unlink()


def _delete_folder(order: Order) -> None:
    if order.get("force"):
        shutil.rmtree(order["path"])
    else:
        Path(order["path"]).rmdir()


def _free(order: Order, member: str = "path") -> Path:
    path = Path(order[member])
    if path.exists() and not order.get("overwrite", True):
        raise FileExistsError(f"{path} is there already, and overwrite is false")
    return path


def _own(path: Path, order: Order) -> None:
    if order.get("permissions") is not None:
        mode = order["permissions"]
        path.chmod(int(str(mode), 8) if isinstance(mode, str) else mode)
    user = _number("/etc/passwd", order.get("owner"))
    group = _number("/etc/group", order.get("group"))
    if (user, group) != (-1, -1):
        os.chown(path, user, group)


def _number(table: str, name: object) -> int:
    """Read here: the C library would load modules of this tree, which need not fit it. -1 changes nothing."""
    if name is None:
        return -1
    if str(name).isdigit():
        return int(str(name))
    for line in Path(table).read_text(encoding="utf-8").splitlines():
        fields = line.split(":")
        if fields[0] == name:
            return int(fields[2])
    raise LookupError(f"{table} has no '{name}'")


SORTS: Mapping[str, Callable[[Order], None]] = {
    "append_file": _append_file,
    "copy_file": _copy_file,
    "create_file": _create_file,
    "create_folder": _create_folder,
    "create_symlink": _create_symlink,
    "delete_file": _delete_file,
    "delete_folder": _delete_folder,
    "move_file": _move_file,
    "place": _place,
    "set_owner": lambda order: _own(Path(order["path"]), order),
    "set_permissions": lambda order: _own(Path(order["path"]), order),
}
