"""Checkpoints in a folder that every node shares: published by one rename, and synced before it."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint import lease, manifest
from slipway.containers.runtime.checkpoint.pieces import Parts
from slipway.containers.runtime.checkpoint.storage import UnpublishedStep, step_name

_PUBLISHED = re.compile(r"step-([0-9]{10})", re.ASCII)
_LEFT_BEHIND = re.compile(r"(step-[0-9]{10}\.(tmp|trash)-|LEASE\.json\.).+", re.ASCII | re.DOTALL)


class CheckpointFolder:
    """Keep checkpoints in a local or shared folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __str__(self) -> str:
        return str(self.folder)

    def open(self) -> FolderLease:
        self.folder.mkdir(parents=True, exist_ok=True)
        return FolderLease(self.folder / lease.NAME)

    def sweep(self) -> None:
        for path in list(self.folder.iterdir()):
            if _LEFT_BEHIND.fullmatch(path.name):
                self._remove(path)

    def steps(self) -> list[int]:
        """Return the published steps. Other files in the folder do not count."""
        try:
            found = [_PUBLISHED.fullmatch(path.name) for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def manifest(self, step: int) -> bytes:
        path = self._path(step)
        if not disk.is_real_folder(path):
            raise NotADirectoryError("it is a link or a file, not a folder")
        return disk.read_bounded(path / manifest.NAME, manifest.MOST_BYTES)

    def sizes(self, where: UnpublishedStep | int) -> Mapping[str, int]:
        """Return the size of each regular file: nothing else counts, and no link is followed."""
        with suppress(FileNotFoundError):
            found = {entry.name: entry.lstat() for entry in self._path(where).iterdir()}
            return {name: one.st_size for name, one in found.items() if stat.S_ISREG(one.st_mode)}
        return {}

    def file_name(self, draft: UnpublishedStep, rank: int) -> str:
        return manifest.file_name(rank)

    def read(self, step: int, name: str, stretches: Sequence[tuple[int, int]]) -> Iterator[bytearray]:
        with disk.open_existing(self._path(step) / name) as file:
            for start, stop in stretches:
                yield disk.read_at(file, start, stop - start)

    def write(self, draft: UnpublishedStep, rank: int, parts: Parts, moved: Callable[[], None]) -> None:
        folder = self._path(draft)
        folder.mkdir(exist_ok=True)
        path = folder / self.file_name(draft, rank)
        with suppress(FileNotFoundError):
            path.unlink()  # of an earlier save of this step that failed
        disk.write_synced(path, parts, moved)

    def publish(self, draft: UnpublishedStep, content: bytes, check: Callable[[], None]) -> None:
        written, target = self._path(draft), self._path(draft.step)
        disk.write_synced(written / manifest.NAME, [content])
        disk.sync_folder(written)
        check()
        if target.exists():
            disk.discard_folder(target, self._trash(target))
        written.rename(target)
        disk.sync_folder(self.folder)

    def abandon(self, draft: UnpublishedStep) -> None:
        disk.discard_folder(self._path(draft), self._trash(self._path(draft)))

    def discard(self, step: int) -> None:
        disk.discard_folder(self._path(step), self._trash(self._path(step)))

    def beside(self) -> AbstractContextManager[Path]:
        return nullcontext(self.folder)

    def _path(self, where: UnpublishedStep | int) -> Path:
        if isinstance(where, int):
            return self.folder / step_name(where)
        return self.folder / f"{step_name(where.step)}.tmp-{where.attempt}-{where.token}"

    def _remove(self, path: Path) -> None:
        if path.is_symlink() or not path.is_dir():
            with suppress(OSError):
                path.unlink()
        else:
            disk.discard_folder(path, self._trash(path))

    def _trash(self, path: Path) -> Path:
        step = path.name.split(".", 1)[0]
        return path.with_name(f"{step}.trash-{secrets.token_hex(6)}")


@dataclass(frozen=True, slots=True)
class FolderLease:
    """Keep a lease in a file, whose time of change shows that its holder lives."""

    path: Path

    def read(self) -> bytes | None:
        try:
            return disk.read_bounded(self.path, lease.MOST_BYTES)
        except FileNotFoundError:
            return None

    def stamp(self) -> Hashable:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def create(self, content: bytes, token: str) -> bool:
        try:
            disk.create_whole(self.path, content, token=token)
        except FileExistsError:
            return False
        return True

    def replace(self, content: bytes, token: str) -> None:
        disk.replace_file(self.path, content, token=token)

    def renew(self) -> None:
        os.utime(self.path)

    def remove(self) -> None:
        self.path.unlink()
