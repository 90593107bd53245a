"""Build the source distribution and the wheel of a commit: the same commit gives the same bytes."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from slipway.jobs.words.errors import SlipwayError

_SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
_WHEEL = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
_WORLD_READABLE = 0o022  # a wheel keeps the modes of its files
_PROGRAM, _FILE = 0o755, 0o644
_LAST_WORDS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A clone of one commit, in which the release's tag is set, and nowhere else yet."""

    folder: Path
    commit: str
    epoch: int  # when it was committed: what is built has no other time


def clone(root: Path, folder: Path, tag: str) -> Source:
    """Clone the checkout's commit: what is not committed is in no release."""
    run("git", "clone", "--quiet", "--no-tags", "--no-local", f"file://{root}", str(folder))
    run(
        "git",
        "-C",
        str(folder),
        "checkout",
        "--quiet",
        "--detach",
        run("git", "-C", str(root), "rev-parse", "HEAD"),
    )
    run("git", "-C", str(folder), "tag", tag)
    commit, epoch = run("git", "-C", str(folder), "log", "-1", "--format=%H %ct").split()
    return Source(folder=folder, commit=commit, epoch=int(epoch))


def build(source: Source, work: Path, target: Path) -> tuple[Path, Path]:
    """Return the source distribution and the wheel; the wheel is built from nothing but the former."""
    built, unpacked = work / "sdist", work / "unpacked"
    _setuptools(_SDIST, source.folder, built, source.epoch)
    (made,) = built.glob("*.tar.gz")
    sdist = target / made.name
    _repack(made, sdist, source.epoch)
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    _setuptools(_WHEEL, unpacked / sdist.name.removesuffix(".tar.gz"), target, source.epoch)
    (wheel,) = target.glob("*.whl")
    return sdist, wheel


def run(*command: str, cwd: Path | None = None, more: dict[str, str] | None = None, umask: int = -1) -> str:
    """Return what a command prints; its own words where it fails."""
    ran = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(more or {})},
        umask=umask,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        said = f"{ran.stdout}{ran.stderr}".strip()[-_LAST_WORDS:]
        raise SlipwayError(
            f"{' '.join(command[:3])} ended with {ran.returncode}: {said}", hint="mend it and run again"
        )
    return ran.stdout.strip()


def _setuptools(code: str, folder: Path, target: Path, epoch: int) -> None:
    """Ask the setuptools of this environment, which scripts/locks holds, in a process of its own."""
    target.mkdir(exist_ok=True)
    more = {"SOURCE_DATE_EPOCH": str(epoch)}
    run(sys.executable, "-P", "-c", code, str(target), cwd=folder, more=more, umask=_WORLD_READABLE)


def _repack(made: Path, target: Path, epoch: int) -> None:
    """Write it again without times, owners and an order of this machine: setuptools keeps them."""
    with (
        tarfile.open(made) as old,
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted((each for each in old if each.isfile()), key=lambda each: each.name):
            entry = tarfile.TarInfo(member.name)
            entry.size, entry.mtime = member.size, epoch
            entry.mode = _PROGRAM if member.mode & 0o100 else _FILE
            new.addfile(entry, old.extractfile(member))
