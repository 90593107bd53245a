"""Build the source distribution, the wheel and the site of a commit: the same commit gives the same bytes."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable
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
    """A clone of one commit; so far only the clone has the release's tag."""

    folder: Path
    commit: str
    epoch: int  # the commit's time, which is that of all files of the release


def clone(root: Path, folder: Path, tag: str) -> Source:
    """Clone the checkout's commit, so that a release has nothing uncommitted."""
    run("git", "clone", "--quiet", "--no-tags", "--no-local", f"file://{root}", str(folder))
    head = run("git", "-C", str(root), "rev-parse", "HEAD")
    run("git", "-C", str(folder), "checkout", "--quiet", "--detach", head)
    run("git", "-C", str(folder), "tag", tag)
    commit, epoch = run("git", "-C", str(folder), "log", "-1", "--format=%H %ct").split()
    return Source(folder=folder, commit=commit, epoch=int(epoch))


def build(source: Source, work: Path, target: Path) -> tuple[Path, Path]:
    """Return the source distribution, and the wheel, which is built only from it."""
    built, unpacked = work / "sdist", work / "unpacked"
    _setuptools(_SDIST, source.folder, built, source.epoch)
    (made,) = built.glob("*.tar.gz")
    sdist = target / made.name
    # Written again without this machine's times, owners and order, which setuptools keeps.
    with tarfile.open(made) as old:
        members = sorted((each for each in old if each.isfile()), key=lambda each: each.name)
        read = ((each.name, each.mode, old.extractfile(each)) for each in members)
        _pack(sdist, source.epoch, ((name, mode, file.read()) for name, mode, file in read if file))
    unpacked.mkdir()
    # By tar, because Debian 12's Python has no filters.
    run("tar", "--extract", "--file", str(sdist), "--directory", str(unpacked))
    _setuptools(_WHEEL, unpacked / sdist.name.removesuffix(".tar.gz"), target, source.epoch)
    (wheel,) = target.glob("*.whl")
    return sdist, wheel


def build_site(source: Source, work: Path, archive: Path) -> Path:
    """Pack the site that scripts/site makes of README and docs/, in a folder of the archive's name."""
    site = work / "site"
    run(
        *(sys.executable, "-P", "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"),
        *("--doctree-dir", str(work / "trees"), "--conf-dir", "scripts/site_pages", ".", str(site)),
        cwd=source.folder,
        more={"SOURCE_DATE_EPOCH": str(source.epoch)},
    )
    folder = archive.name.removesuffix(".tar.gz")
    paths = sorted(each for each in site.rglob("*") if each.is_file() and each.name != ".buildinfo")
    _pack(
        archive,
        source.epoch,
        ((f"{folder}/{each.relative_to(site)}", _FILE, each.read_bytes()) for each in paths),
    )
    return archive


def run(*command: str, cwd: Path | None = None, more: dict[str, str] | None = None, umask: int = -1) -> str:
    """Return what a command prints; if it fails, raise with what it printed."""
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
    """Run the setuptools of this environment, which scripts/locks pins, in its own process."""
    target.mkdir(exist_ok=True)
    more = {"SOURCE_DATE_EPOCH": str(epoch)}
    run(sys.executable, "-P", "-c", code, str(target), cwd=folder, more=more, umask=_WORLD_READABLE)


def _pack(target: Path, epoch: int, files: Iterable[tuple[str, int, bytes]]) -> None:
    """Write files, each with its name and mode, into an archive that does not depend on this machine."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for name, mode, content in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), epoch
            entry.mode = _PROGRAM if mode & 0o100 else _FILE
            new.addfile(entry, io.BytesIO(content))
