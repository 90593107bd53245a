"""Which files of a folder travel to the nodes: those that git would keep, in a repository or not.

git itself is asked, because only git reads every ignore rule as git does: nested, negated, the user's own.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import printable

_LIST = ("ls-files", "--others", "--exclude-standard", "-z")
# A hook's variables would lead git to the hook's repository (githooks(5)).
_OF_ANOTHER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
_NO_REPOSITORY = b"not a git repository"
_LEFT_OUT = b"could not open directory"  # git warns, and lists the rest


class CannotShip(SlipwayError):
    """The folder cannot be sent as it is; its owner can mend that."""

    exit_code = 2


def list_names(folder: Path) -> list[str]:
    """List the files, relative to the folder, in the order of their bytes; nothing that git ignores."""
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
        if path.is_dir() and not path.is_symlink():  # a repository inside: git lists it as one entry
            if (path / ".git").exists():
                yield from (f"{name}/{inner}" for inner in _names(path, empty))
        elif os.path.lexists(path):  # git still lists what was deleted and not committed
            yield name


def _ask_git(folder: Path, empty: Path) -> bytes:
    if _is_in_repository(folder):
        return _git(folder, *_LIST, "--cached")
    if not (empty / "HEAD").exists():
        _git(folder, "init", "--quiet", "--bare", str(empty))
    return _git(folder, f"--git-dir={empty}", f"--work-tree={folder}", *_LIST)


def _is_in_repository(folder: Path) -> bool:
    asked = _run(folder, "rev-parse", "--is-inside-work-tree")
    if asked.returncode and _NO_REPOSITORY not in asked.stderr:
        raise _refused(folder, asked)
    return asked.stdout.strip() == b"true"


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
