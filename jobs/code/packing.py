"""Packs a folder into one archive: the same files make the same bytes, on every machine at any time.

Uploads it to a cluster's bucket, and keeps archives of planned commands until they are sent.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, cast

from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.named_files import open_regular
from slipway.jobs.cloud.objects import find_object, send_file
from slipway.jobs.code.command_job import RECIPE
from slipway.jobs.code.folder import CannotShip, ProjectFile, ProjectFolder, stamp_of
from slipway.jobs.platforms.journal import state_home
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import PROJECT_DAYS, Job, project_key
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import printable

_MODE, _PROGRAM_MODE = 0o644, 0o755
_AGAIN = "run the same command again when nothing writes to it, or name it in .gitignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedProject:
    digest: str  # of the uncompressed archive: releases of zlib compress differently
    archive: Path  # a compressed file
    files: int
    size_bytes: int  # of the files
    packed_bytes: int


class _Hashed:
    """Compress what is written, and hash it uncompressed."""

    def __init__(self, compressed: gzip.GzipFile) -> None:
        self._compressed = compressed
        self.digest = sha256()

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return self._compressed.write(content)


def pack_project(folder: ProjectFolder, archive: Path) -> PackedProject:
    """Write the archive; refuse a file that changed since the folder was read."""
    with archive.open("xb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as compressed:
        hashed = _Hashed(compressed)
        stream = cast(BinaryIO, hashed)  # tarfile only writes to its stream
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for file in folder.files:
                _add(tar, folder.path, file)
    return PackedProject(
        digest=hashed.digest.hexdigest(),
        archive=archive,
        files=len(folder.files),
        size_bytes=folder.size_bytes,
        packed_bytes=archive.stat().st_size,
    )


def _add(tar: tarfile.TarFile, folder: Path, file: ProjectFile) -> None:
    """Add a file with nothing of this machine: no owner, no time, and only the executable bit."""
    entry = tarfile.TarInfo(file.name)
    entry.mode = _PROGRAM_MODE if file.is_program else _MODE
    if file.link is not None:
        entry.type, entry.linkname = tarfile.SYMTYPE, file.link
        tar.addfile(entry)
        return
    entry.size = file.size_bytes
    try:
        with open_regular(folder / file.name, follow_links=False) as content:
            if stamp_of(os.fstat(content.fileno())) != file.stamp:
                raise _changed(file)
            tar.addfile(entry, content)
            if stamp_of(os.fstat(content.fileno())) != file.stamp:
                raise _changed(file)
    except FileNotFoundError:
        raise _changed(file) from None
    except Refusal as refusal:  # the former file is now a folder or a FIFO
        raise CannotShip(refusal.message, hint=_AGAIN) from None
    except OSError as error:  # tarfile reports a file that became shorter without an errno
        if error.errno is None:
            raise _changed(file) from None
        raise CannotShip(
            f"{printable(file.name)} cannot be read: {error.strerror}", hint="make it readable, or ignore it"
        ) from None


def _changed(file: ProjectFile) -> CannotShip:
    return CannotShip(f"{printable(file.name)} changed while it was read", hint=_AGAIN)


# Uploads a packed folder to a cluster's bucket, once for each content. The bucket deletes it after
# PROJECT_DAYS, and a job may read it long after its submission.
_FRESH = timedelta(days=PROJECT_DAYS / 2)


def project_url(digest: str, target: Target) -> str:
    return f"s3://{target.bucket}/{project_key(digest)}"


def upload_project(packed: PackedProject, target: Target, s3: Any) -> bool:
    """Upload the archive unless it is there and will stay long enough; return True if it was sent."""
    return upload_once(packed.archive, project_key(packed.digest), target, s3)


def upload_once(file: Path, key: str, target: Target, s3: Any) -> bool:
    """Upload a file whose key contains its digest, unless it is there; return True if it was sent."""
    owner = {"ExpectedBucketOwner": target.account}
    there = find_object(s3, "HeadObject", Bucket=target.bucket, Key=key, **owner)
    if there is not None and datetime.now(UTC) - there["LastModified"] < _FRESH:
        return False
    send_file(s3, file, bucket=target.bucket, key=key, extra=owner)
    return True


# A folder that is packed now and sent later, to the cluster that a plan chooses; it is kept as it was
# planned. The archive is in $XDG_STATE_HOME/slipway/sources, named by its digest, for PROJECT_DAYS.
_SUFFIX = ".tar.gz"
_DAY_SECONDS = 24 * 3600


class LostArchive(SlipwayError):
    """The folder of a planned command is no longer on this machine."""


def keep_archive(folder: ProjectFolder) -> Path:
    """Pack the folder and keep it; return the archive, whose name is its digest."""
    kept = state_home() / "slipway" / "sources"
    try:
        kept.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotShip(
            f"the folder of a planned command is kept in {kept}, which cannot be made: {error.strerror}",
            hint="set XDG_STATE_HOME to a folder that you can write",
        ) from None
    for archive in kept.glob(f"*{_SUFFIX}"):
        with suppress(OSError):
            if time.time() - archive.stat().st_mtime > PROJECT_DAYS * _DAY_SECONDS:
                archive.unlink()
    with TemporaryDirectory(dir=kept, prefix="packing-") as scratch:
        packed = pack_project(folder, Path(scratch) / "folder")
        return packed.archive.rename(kept / f"{packed.digest}{_SUFFIX}")


def with_sent_source(job: Job, target: Target, s3: Any) -> Job:
    """Send the archive of a planned command to the cluster's bucket; return the job with its URL."""
    archive = _kept(job)
    if archive is None:
        return job
    size = archive.stat().st_size
    packed = PackedProject(digest=_digest(archive), archive=archive, files=0, size_bytes=0, packed_bytes=size)
    upload_project(packed, target, s3)
    return with_source_at(job, target)


def with_source_at(job: Job, target: Target) -> Job:
    """Return the job with the URL that the archive of its planned command will have in the bucket."""
    archive = _kept(job)
    if archive is None:
        return job
    return replace(job, settings={**job.settings, "source": project_url(_digest(archive), target)})


def read_kept(job: Job, name: str) -> str:
    """Return the text of a file of the folder, as it was when it was packed."""
    archive = _kept(job)
    assert archive is not None, "only a planned command is asked for its files"
    with tarfile.open(archive) as packed:
        content = packed.extractfile(name)
        assert content is not None, "a plan refuses a name that is no file of the folder"
        return content.read().decode("utf-8", "replace")


def _kept(job: Job) -> Path | None:
    """Return the archive that is kept for the job; None for other jobs, or if it was sent."""
    source = job.settings.get("source", "")
    if job.recipe != RECIPE or not source.startswith("/"):
        return None
    archive = Path(source)
    if not archive.is_file():
        raise LostArchive(
            f"job '{job.name}': its folder is not kept as {archive} any more",
            hint="plan again: slipway plan make FILE",
        )
    return archive


def _digest(archive: Path) -> str:
    return archive.name.removesuffix(_SUFFIX)
