"""Install a user's requirements once on a node, on top of the image's packages; unpack the user's folder.

A virtual environment holds them and sees the image's packages: a torch that fits is not installed again, and
another version of a package changes nothing for other jobs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, cast

from slipway.containers.data.sources.locations import open_source
from slipway.containers.data.sources.sources import Source
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.named_files import read_bytes
from slipway.containers.runtime.node_folders import hold

PREFIX = "packages-"
_MOST_BYTES = 1 << 20
_KEPT_SECONDS = 7 * 24 * 3600.0  # after the last job that took them
_QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
_SITES = ("site-packages", "dist-packages")


def ensure_packages(requirements: str, folder: Path) -> Path:
    """Return the virtual environment of the folder's requirements; install them if it is missing."""
    content = read_bytes(folder / requirements, _MOST_BYTES)
    own = f"{sys.executable}\0{sys.version}\0".encode()

    def install(environment: Path) -> None:
        venv = [sys.executable, "-m", "venv", "--without-pip", str(environment)]
        _run(venv, folder, "make an environment")
        sites = [path for path in sys.path if Path(path).name in _SITES]
        # addsitedir, and no plain path: what the image has by way of .pth files counts as well.
        lines = [f"import site; site.addsitedir({path!r})\n" for path in sites]
        (_site(environment) / "_image.pth").write_text("".join(lines), encoding="utf-8")
        print(f"installing {requirements}", file=sys.stderr, flush=True)
        pip = [str(environment / "bin" / "python"), "-m", "pip"]
        _run([*pip, "install", "--requirement", requirements], folder, f"install {requirements}")

    return hold(PREFIX, sha256(own + content).hexdigest(), install, _KEPT_SECONDS)


def with_packages(environment: Mapping[str, str], packages: Path) -> dict[str, str]:
    """Let programs of the image see the packages, too: torchrun's first line names the image's Python."""
    return {
        **environment,
        "VIRTUAL_ENV": str(packages),
        "PATH": os.pathsep.join((str(packages / "bin"), environment.get("PATH", os.defpath))),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(_site(packages)), environment.get("PYTHONPATH")))),
    }


def _site(environment: Path) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return environment / "lib" / version / "site-packages"


def _run(words: list[str], folder: Path, what: str) -> None:
    """Run a program; its output goes to the log as it is written."""
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **_QUIET}, stdout=sys.stderr.fileno(), check=False
    )
    if done.returncode:
        raise Refusal(
            f"this node could not {what}: {' '.join(words[1:4])} ended with exit code {done.returncode}",
            hint="the reason is above; nodes without a way to the internet need wheels in the folder, and "
            "--no-index and --find-links in the file",
        )


# Fetch the archive of a user's folder, check its digest, and unpack it below one folder.
MOST_BYTES = 6 << 30  # more than slipway run sends
_STRETCH_BYTES = 8 << 20
_GZIP = 16 + zlib.MAX_WBITS
_NO_ARCHIVE = (tarfile.TarError, ValueError, EOFError)
_AGAIN = "delete the object and run slipway run again"


class DamagedSource(Refusal):
    """The archive of a user's folder is damaged, so nothing in it is run."""


def unpack_source(place: str, digest: str, folder: Path, account: str | None) -> None:
    """Download the archive and unpack it into the folder; `account` must own the bucket."""
    source = open_source(place, bucket_owner=account)
    with tempfile.TemporaryFile(dir=folder.parent) as plain:
        found = _decompress(source, cast(BinaryIO, plain), place)
        if found != digest:
            raise DamagedSource(f"{place} has the digest {found}", hint=_AGAIN)
        plain.seek(0)
        try:
            with tarfile.open(fileobj=plain) as tar:
                for member in tar:
                    _extract(tar, member, folder)
        except (*_NO_ARCHIVE, FileExistsError, NotADirectoryError) as error:  # the last two: a name twice
            raise DamagedSource(f"{place} is no archive of slipway run ({error})", hint=_AGAIN) from None


def _decompress(source: Source, plain: BinaryIO, place: str) -> str:
    """Decompress the archive into a file; return the digest of its content."""
    reader, running = zlib.decompressobj(_GZIP), sha256()
    (file,) = source.files
    for start in range(0, file.size_bytes, _STRETCH_BYTES):
        packed = source.read(file.name, start, min(_STRETCH_BYTES, file.size_bytes - start))
        while packed:
            try:
                content = reader.decompress(packed, _STRETCH_BYTES)
            except zlib.error as error:
                raise DamagedSource(f"{place} is not gzip ({error})", hint=_AGAIN) from None
            running.update(content)
            if plain.tell() + plain.write(content) > MOST_BYTES:
                raise DamagedSource(f"{place} unpacks to more than {MOST_BYTES} bytes", hint=_AGAIN)
            packed = reader.unconsumed_tail
    return running.hexdigest()


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write one file or link below the folder, without extractall(): Python 3.10 lacks its filters."""
    target = folder / member.name
    target.parent.mkdir(parents=True, exist_ok=True)
    if not _is_below(target, folder) or (folder.resolve() / member.name).parent != target.parent.resolve():
        raise DamagedSource(f"the archive holds {member.name!a}, which leads out of its folder", hint=_AGAIN)
    if member.issym():
        if not _is_below(Path(os.path.normpath(target.parent / member.linkname)), folder):
            raise DamagedSource(f"link {member.name!a} leads out of its folder", hint=_AGAIN)
        target.symlink_to(member.linkname)
        return
    source = tar.extractfile(member) if member.isfile() else None
    if source is None:
        raise DamagedSource(f"the archive holds {member.name!a}, which is no file", hint=_AGAIN)
    with source, target.open("xb") as copy:
        shutil.copyfileobj(source, copy)
    target.chmod(member.mode & 0o755)


def _is_below(target: Path, folder: Path) -> bool:
    return ".." not in target.parts and target.is_relative_to(folder)
