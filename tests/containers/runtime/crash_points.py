"""Ends a saving process before each of its file operations in turn, and sees what can be resumed each time.

Run as a program: `crash_points.py FOLDER WORLD DYING_RANK MODE OLDER_STEPS`; prints one JSON object. MODE is
`kill`; `torn`: half of a write is done first; or `power`: what was not synced is lost, too.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slipway.containers.runtime.collective import Collective
from tests.containers.runtime.saving import (
    FAILED,
    NONE,
    WRONG,
    in_processes,
    is_right,
    opened,
    save,
)

DIED = 77
OPERATIONS = ("open", "write", "fsync", "link", "rename", "replace", "mkdir", "unlink", "rmdir")


class Countdown:
    """Stands before every changing call of `os`, and ends the process at the `left`-th."""

    def __init__(self, folder: Path, left: int, mode: str) -> None:
        self.folder, self.left, self.mode = folder, left, mode
        self.real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in OPERATIONS}
        self.unsynced_files: set[int] = set()  # by inode, because folders are renamed meanwhile
        self.unsynced_names: dict[str, list[tuple[str, str]]] = {}  # the renames in each folder
        for name in OPERATIONS:
            setattr(os, name, self.standing_before(name))

    def standing_before(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if name != "open" or arguments[1] & os.O_CREAT:
                self.left -= 1
                if self.left == 0:
                    self.die(name, arguments)
            result = self.real[name](*arguments, **options)
            self.note(name, arguments)
            return result

        return call

    def die(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "write" and self.mode == "torn":
            self.real["write"](arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
        if self.mode == "power":
            self.forget()
        os._exit(DIED)

    def note(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "write":
            self.unsynced_files.add(os.fstat(arguments[0]).st_ino)
        elif name == "fsync":
            synced = str(Path(f"/proc/self/fd/{arguments[0]}").readlink())
            self.unsynced_files.discard(os.fstat(arguments[0]).st_ino)
            self.unsynced_names.pop(synced, None)
        elif name in ("rename", "replace"):
            source, target = map(str, arguments[:2])
            self.unsynced_names.setdefault(str(Path(target).parent), []).append((source, target))

    def forget(self) -> None:
        """A disk may keep any part of what was not synced; here it keeps none."""
        for path in self.folder.rglob("*"):
            if path.is_file() and path.stat().st_ino in self.unsynced_files:
                os.truncate(path, 0)
        for renames in self.unsynced_names.values():
            for source, target in reversed(renames):
                if Path(target).exists() and not Path(source).exists():
                    self.real["rename"](target, source)


def saving(folder: Path, step: int, dying: int, left: int, mode: str) -> Callable[[Collective], int]:
    def body(collective: Collective) -> int:
        if collective.rank == dying:
            Countdown(folder, left, mode)
        try:
            with opened(folder, 2, collective=collective, lease_seconds=0.2) as checkpoints:
                save(checkpoints, step, collective.rank)
        except (ConnectionError, OSError):
            return FAILED
        return 0

    return body


def resuming(folder: Path) -> Callable[[Collective], int]:
    def body(collective: Collective) -> int:
        try:
            with opened(folder, 3, collective=collective, lease_seconds=0.2) as checkpoints:
                found = checkpoints.resume("auto")
                left = [
                    path.name for path in folder.iterdir() if ".tmp-" in path.name or ".trash-" in path.name
                ]
        except Exception:  # noqa: BLE001  # whatever it is, the sweep reports it
            return FAILED
        if found is None:
            return NONE
        return found.step if is_right(found, collective.rank) and not left else WRONG

    return body


def main(folder: Path, world: int, dying: int, mode: str, older: int) -> None:
    base, work = folder / "base", folder / "work"
    base.mkdir()
    for step in range(1, older + 1):
        in_processes(world, saving(base, step, -1, 0, mode))
    found: list[list[int]] = []
    for left in range(1, 1000):
        shutil.copytree(base, work)
        ended = in_processes(world, saving(work, older + 1, dying, left, mode))
        found.append(in_processes(world, resuming(work)))
        shutil.rmtree(work)
        if DIED not in ended:
            break
    print(json.dumps({"after_each": found[:-1], "unharmed": found[-1]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
