"""Reads a folder that will be sent: its files with their sizes and links, checked before any is sent."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.jobs.code.secrets import ALLOWED_IN, find_secrets
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import printable

# The size limit of a folder that is sent to nodes, and how sizes are printed.
MEGABYTE, KILOBYTE = 1_000_000, 1_000
DEFAULT_LIMIT_MB = 200
LARGEST_LIMIT_MB = 5_000  # every node reads the folder at every attempt; larger things are data


def megabytes(size_bytes: int) -> str:
    """Return the size in megabytes, or in kilobytes if it is less than one."""
    if size_bytes < MEGABYTE / 10:
        return f"{size_bytes / KILOBYTE:.1f} kB"
    return f"{size_bytes / MEGABYTE:,.1f} MB"


_NAMED = 5
Stamp = tuple[int, int, int]  # inode, size and time of the last change: any change means other content


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    name: str  # relative to the folder; bytes that are not UTF-8 are decoded by os.fsdecode
    size_bytes: int
    is_program: bool  # the only part of a file's mode that git keeps; the rest depends on each user's umask
    link: str | None  # target of a symbolic link
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFolder:
    path: Path
    files: tuple[ProjectFile, ...]
    skipped: tuple[str, ...]  # sockets, FIFOs, devices, and submodules that are not checked out

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def read_folder(
    path: Path, *, limit_mb: int = DEFAULT_LIMIT_MB, include_secrets: bool = False
) -> ProjectFolder:
    """Look at the folder and refuse, by name, what must not or cannot be sent.

    Files are opened only to look for secrets, after all checks of sizes and links.
    """
    path = path.absolute()  # as errors name it
    files, skipped = [], []
    for name in list_names(path):
        try:
            status = os.lstat(path / name)
        except FileNotFoundError:  # deleted since git listed it
            continue
        is_link = stat.S_ISLNK(status.st_mode)
        if not is_link and not stat.S_ISREG(status.st_mode):
            skipped.append(name)
            continue
        file = ProjectFile(
            name=name,
            size_bytes=0 if is_link else status.st_size,
            is_program=bool(status.st_mode & stat.S_IXUSR),
            link=str((path / name).readlink()) if is_link else None,
            stamp=stamp_of(status),
        )
        files.append(file)
    folder = ProjectFolder(path=path, files=tuple(files), skipped=tuple(skipped))
    if not files:
        raise CannotShip(
            f"{printable(str(path))} holds no file that would be sent",
            hint="git ignores all that is in it, or it is empty; give --folder the folder of your code",
        )
    _refuse_size(folder, limit_mb)
    _refuse_links(folder)
    if not include_secrets:
        _refuse_secrets(folder)
    return folder


def words_of_skipped(folder: ProjectFolder) -> Iterator[str]:
    """Yield a line for each entry that is not sent, though the program may need it."""
    for name in folder.skipped:
        is_submodule = (folder.path / name).is_dir()
        kind = "submodule that is not checked out" if is_submodule else "socket, a FIFO or a device"
        advice = ": git submodule update --init" if is_submodule else ""
        yield f"{printable(name)} is a {kind}, and is not sent{advice}"


def stamp_of(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns


def ignored_words(folder: ProjectFolder, words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command that name a file of the folder which is not sent."""
    sent = {file.name for file in folder.files}
    for word in words:
        name = os.path.normpath(word)
        if not name.startswith(("/", "..")) and name not in sent and _is_file(folder.path / name):
            yield word


def _refuse_secrets(folder: ProjectFolder) -> None:
    if found := find_secrets(folder.path, [file.name for file in folder.files]):
        places = [
            f"{each.name}{'' if each.line is None else f':{each.line}'} ({each.kind})" for each in found
        ]
        more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
        raise CannotShip(
            f"these files look like secrets, and everybody who reads the bucket would read them: "
            f"{', '.join(map(printable, places[:_NAMED]))}{more}",
            hint=f"name them in .gitignore; those that are none in {ALLOWED_IN}; or say --include-secrets",
        )


def _refuse_size(folder: ProjectFolder, limit_mb: int) -> None:
    if folder.size_bytes <= limit_mb * MEGABYTE:
        return
    largest = sorted(folder.files, key=lambda file: -file.size_bytes)[:_NAMED]
    named = ", ".join(f"{printable(file.name)} ({megabytes(file.size_bytes)})" for file in largest)
    raise CannotShip(
        f"{printable(str(folder.path))} has {megabytes(folder.size_bytes)} to send, and at most "
        f"{limit_mb} MB are sent; the largest: {named}",
        hint=_for_environment(folder.path, largest[0].name)
        or "name in .gitignore what is no code, and bring data by slipway cluster upload; or raise --limit",
    )


def _for_environment(folder: Path, name: str) -> str:
    """Return what to do about a file of a virtual environment; '' for any other."""
    for parent in Path(name).parents:
        if (folder / parent / "pyvenv.cfg").exists():
            return (
                f"echo '{printable(str(parent))}/' >> .gitignore: an environment works on no other machine; "
                "--requirements FILE installs packages there"
            )
    return ""


def _refuse_links(folder: ProjectFolder) -> None:
    """Refuse a link that would be broken on a node, or that leads to a file of the node's own."""
    files, root = {file.name for file in folder.files}, folder.path.resolve()
    sent = files | {str(parent) for name in files for parent in Path(name).parents}
    for file in folder.files:
        if file.link is None:
            continue
        shown = f"link {printable(file.name)} leads to {printable(file.link)}"
        try:
            target = (folder.path / file.name).resolve(strict=True)
        except (OSError, RuntimeError):  # RuntimeError: a loop, before Python 3.13
            raise CannotShip(f"{shown}, which does not exist", hint="remove the link, or mend it") from None
        if Path(file.link).is_absolute() or not target.is_relative_to(root):
            advice = _for_environment(folder.path, file.name)
            raise CannotShip(
                f"{shown}, out of the folder that is sent",
                hint=advice or "copy the file there, or name the link in .gitignore",
            )
        if str(target.relative_to(root)) not in sent:
            raise CannotShip(
                f"{shown}, which git ignores, so that it is not sent", hint="ignore the link, too"
            )


def _is_file(path: Path) -> bool:
    """Return True for an existing file; False also for a word that is too long for a file name."""
    try:
        return path.is_file()
    except OSError:
        return False


# Lists the files of a folder that are sent: those that git would keep, in a repository or not. git is asked,
# because only git reads every ignore rule as git does: nested, negated, the user's own.
# A Mac's Finder writes .DS_Store wherever somebody looks.
_LIST = ("ls-files", "--others", "--exclude-standard", "--exclude=.DS_Store", "-z")
# A hook's variables would lead git to the hook's repository (githooks(5)).
_OF_ANOTHER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
_NO_REPOSITORY = b"not a git repository"
_LEFT_OUT = b"could not open directory"  # git warns, and lists the rest


class CannotShip(SlipwayError):
    """The folder cannot be sent as it is; the user can correct that."""

    exit_code = 2


def list_names(folder: Path) -> list[str]:
    """List the files by relative path, sorted as bytes, without those that git ignores."""
    if not folder.is_dir():
        raise CannotShip(
            f"{printable(str(folder))} is no folder", hint="give --folder the folder of your code"
        )
    with tempfile.TemporaryDirectory(prefix="slipway-git-") as empty:
        return sorted(set(_names(folder, Path(empty))), key=os.fsencode)


def _names(folder: Path, empty: Path) -> Iterator[str]:
    for listed in filter(None, _ask_git(folder, empty).split(b"\0")):
        name = os.fsdecode(listed).removesuffix("/")
        path = folder / name
        if path.is_dir() and not path.is_symlink():  # a repository inside, which git lists as one entry
            if (path / ".git").exists():
                yield from (f"{name}/{inner}" for inner in _names(path, empty))
            elif not any(path.iterdir()):  # a submodule that nobody checked out
                yield name
        elif os.path.lexists(path):  # git still lists deleted files until the deletion is committed
            yield name


def _ask_git(folder: Path, empty: Path) -> bytes:
    asked = _run(folder, "rev-parse", "--is-inside-work-tree")
    if asked.returncode and _NO_REPOSITORY not in asked.stderr:
        raise _refused(folder, asked)
    if asked.stdout.strip() == b"true":
        return _git(folder, *_LIST, "--cached")
    if not (empty / "HEAD").exists():
        _git(folder, "init", "--quiet", "--bare", str(empty))
    return _git(folder, f"--git-dir={empty}", f"--work-tree={folder}", *_LIST)


def _git(folder: Path, *words: str) -> bytes:
    done = _run(folder, *words)
    if done.returncode or _LEFT_OUT in done.stderr:
        raise _refused(folder, done)
    return done.stdout


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER}
    try:
        return subprocess.run(
            ["git", *words], cwd=folder, env={**environment, "LC_ALL": "C"}, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise CannotShip(
            "git is not installed here, and it says which files of a folder are yours", hint="install git"
        ) from None


def _refused(folder: Path, asked: subprocess.CompletedProcess[bytes]) -> CannotShip:
    said = os.fsdecode(asked.stderr).strip().splitlines()
    return CannotShip(
        f"git did not list {printable(str(folder))}: {printable(said[0] if said else 'it said nothing')}",
        hint="run `git status` there, and do what it says",
    )
