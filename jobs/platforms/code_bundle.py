"""Packs the code of a job into one archive: the same files make the same bytes, on every machine.

Images hold what is slow to install; code, which changes daily, is sent with the job.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.objects import find_object
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.containers import code_files
from slipway.jobs.words.job import code_key
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import Say

_MODE, _PROGRAM_MODE = 0o644, 0o755


class CodeChanged(SlipwayError):
    """The code changed while the job was prepared, so nothing was submitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    digest: str  # of the uncompressed archive: releases of zlib compress differently
    plain: bytes

    @property
    def packed(self) -> bytes:
        """Compress the archive; a dry run needs only its digest."""
        return gzip.compress(self.plain, mtime=0)


def own_containers() -> Path:
    """Return the folder of the containers package that this Slipway was installed with."""
    import slipway.containers as containers

    return Path(next(iter(containers.__path__)))


def pack(containers: Path, *, beside: Mapping[str, bytes] | None = None) -> Bundle:
    """Pack the code; `beside` are more files in the archive's root."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in sorted((beside or {}).items()):
            _add(tar, name, content, _MODE)
        _add_file(tar, Path(str(files("slipway"))) / "__init__.py", "slipway/__init__.py")
        for path in code_files(containers):
            _add_file(tar, path, f"slipway/containers/{path.relative_to(containers).as_posix()}")
    plain = archive.getvalue()
    return Bundle(digest=sha256(plain).hexdigest(), plain=plain)


@lru_cache(maxsize=1)
def own_bundle() -> Bundle:
    """Return the code of this Slipway, packed once in a command."""
    return pack(own_containers())


def upload(bundle: Bundle, digest: str, target: Target, say: Say) -> None:
    """Upload the bundle if the bucket lacks it; refuse code that changed since the job was prepared."""
    if bundle.digest != digest:
        raise CodeChanged(
            "containers/ has changed while the job was prepared", hint="run the same command again"
        )
    s3 = aws.client("s3", target.region)
    where = {"Bucket": target.bucket, "ExpectedBucketOwner": target.account, "Key": code_key(digest)}
    if find_object(s3, "HeadObject", **where) is None:
        packed = bundle.packed
        s3.put_object(**where, Body=packed, ContentType="application/gzip")
        say(f"uploaded the code, {len(packed) // 1024} KiB")


def _add_file(tar: tarfile.TarFile, path: Path, name: str) -> None:
    _add(tar, name, path.read_bytes(), _PROGRAM_MODE if path.stat().st_mode & 0o100 else _MODE)


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    """Add a file with nothing of this machine: no owner, no time, and only the executable bit."""
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = mode
    tar.addfile(entry, io.BytesIO(content))
