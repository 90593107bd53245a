"""A folder as it will travel: its files with their sizes and links, checked before one of them is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slipway.jobs.code.listing import CannotShip, list_names
from slipway.jobs.code.secrets_in_names import secret_names
from slipway.jobs.code.sizes import DEFAULT_LIMIT_MB, MEGABYTE, megabytes
from slipway.jobs.words.text import printable

_NAMED = 5
Stamp = tuple[int, int, int]  # inode, size and time of the last change: another one is another content


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    name: str  # relative to the folder; bytes that are no UTF-8 as os.fsdecode gives them
    size_bytes: int
    is_program: bool  # git keeps no more of a file's mode, which differs by everybody's umask
    link: str | None  # where a symbolic link leads
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFolder:
    path: Path
    files: tuple[ProjectFile, ...]
    skipped: tuple[str, ...]  # sockets, FIFOs and devices

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def read_folder(
    path: Path, *, limit_mb: int = DEFAULT_LIMIT_MB, include_secrets: bool = False
) -> ProjectFolder:
    """Look at the folder and refuse, by name, what must not or cannot travel; no file is read."""
    path = path.absolute()  # as errors name it
    names = list_names(path)
    found = list(_statuses(path, names))
    files = tuple(_file(path, name, status) for name, status in found if _is_carried(status))
    folder = ProjectFolder(
        path=path,
        files=files,
        skipped=tuple(name for name, status in found if not _is_carried(status)),
    )
    if not files:
        raise CannotShip(
            f"{printable(str(path))} holds no file that would be sent",
            hint="git ignores all that is in it, or it is empty; give --folder the folder of your code",
        )
    if not include_secrets:
        _refuse_secrets(folder)
    _refuse_size(folder, limit_mb)
    _refuse_links(folder)
    return folder


def stamp_of(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns


def ignored_words(folder: ProjectFolder, words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command that name a file of the folder which is not sent."""
    sent = {file.name for file in folder.files}
    for word in words:
        name = os.path.normpath(word)
        if not name.startswith(("/", "..")) and name not in sent and _is_file(folder.path / name):
            yield word


def _statuses(path: Path, names: Sequence[str]) -> Iterator[tuple[str, os.stat_result]]:
    for name in names:
        with suppress(FileNotFoundError):  # deleted since git listed it
            yield name, os.lstat(path / name)


def _is_carried(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)


def _file(folder: Path, name: str, status: os.stat_result) -> ProjectFile:
    is_link = stat.S_ISLNK(status.st_mode)
    return ProjectFile(
        name=name,
        size_bytes=0 if is_link else status.st_size,
        is_program=bool(status.st_mode & stat.S_IXUSR),
        link=str((folder / name).readlink()) if is_link else None,
        stamp=stamp_of(status),
    )


def _refuse_secrets(folder: ProjectFolder) -> None:
    if found := secret_names(file.name for file in folder.files):
        raise CannotShip(
            f"these files look like secrets, and everybody who reads the bucket would read them: "
            f"{_some(found)}",
            hint="name them in .gitignore, or say --include-secrets",
        )


def _refuse_size(folder: ProjectFolder, limit_mb: int) -> None:
    if folder.size_bytes <= limit_mb * MEGABYTE:
        return
    largest = sorted(folder.files, key=lambda file: -file.size_bytes)[:_NAMED]
    named = ", ".join(f"{printable(file.name)} ({megabytes(file.size_bytes)})" for file in largest)
    raise CannotShip(
        f"{printable(str(folder.path))} has {megabytes(folder.size_bytes)} to send, and at most "
        f"{limit_mb} MB are sent; the largest: {named}",
        hint="name in .gitignore what is no code, and bring data with slipway upload; or raise --limit",
    )


def _refuse_links(folder: ProjectFolder) -> None:
    sent = {file.name for file in folder.files}
    folders = {str(parent) for name in sent for parent in Path(name).parents}
    for file in folder.files:
        if file.link is not None:
            _refuse_link(folder.path, file, sent | folders)


def _refuse_link(folder: Path, file: ProjectFile, sent: set[str]) -> None:
    """Refuse a link that would be broken on a node, or lead to a file of the node's own."""
    shown = f"link {printable(file.name)} leads to {printable(file.link or '')}"
    try:
        target = (folder / file.name).resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: a loop, before Python 3.13
        raise CannotShip(f"{shown}, which does not exist", hint="remove the link, or mend it") from None
    if Path(file.link or "").is_absolute() or not target.is_relative_to(folder.resolve()):
        raise CannotShip(
            f"{shown}, out of the folder that is sent",
            hint="copy the file there, or name the link in .gitignore",
        )
    if str(target.relative_to(folder.resolve())) not in sent:
        raise CannotShip(f"{shown}, which git ignores, so that it is not sent", hint="ignore the link, too")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(printable(name) for name in names[:_NAMED]) + more


def _is_file(path: Path) -> bool:
    """Return False of a word that no file system takes for a name, too: one may be longer than a name."""
    try:
        return path.is_file()
    except OSError:
        return False
