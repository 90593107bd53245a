"""A folder that is packed now and sent later, to the cluster that a plan chooses: it stays as it was planned.

The archive lies below $XDG_STATE_HOME/slipway/sources, named by its digest, until PROJECT_DAYS have passed.
"""

from __future__ import annotations

import tarfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slipway.jobs.code.command_job import RECIPE
from slipway.jobs.code.folder import ProjectFolder
from slipway.jobs.code.packing import PackedProject, pack_project
from slipway.jobs.code.uploading import project_url, upload_project
from slipway.jobs.platforms.journal import state_home
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.inputs import PROJECT_DAYS
from slipway.jobs.words.job import Job
from slipway.jobs.words.targets import Target

_SUFFIX = ".tar.gz"
_DAY_SECONDS = 24 * 3600


class LostArchive(SlipwayError):
    """The folder of a planned command is not on this machine any more."""


def keep_archive(folder: ProjectFolder) -> Path:
    """Pack the folder and keep it; return the archive, whose name is its digest."""
    kept = state_home() / "slipway" / "sources"
    kept.mkdir(parents=True, exist_ok=True)
    _forget_old(kept)
    with TemporaryDirectory(dir=kept, prefix="packing-") as scratch:
        packed = pack_project(folder, Path(scratch) / "folder")
        return packed.archive.rename(kept / f"{packed.digest}{_SUFFIX}")


def with_sent_source(job: Job, target: Target, s3: Any) -> Job:
    """Send the archive of a planned command to the cluster's bucket, and name it as it lies there."""
    archive = _kept(job)
    if archive is None:
        return job
    size = archive.stat().st_size
    packed = PackedProject(digest=_digest(archive), archive=archive, files=0, size_bytes=0, packed_bytes=size)
    upload_project(packed, target, s3)
    return with_source_at(job, target)


def with_source_at(job: Job, target: Target) -> Job:
    """Name the archive of a planned command as it will lie in the cluster's bucket."""
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
    """Return the archive that is kept for the job; None for another job, or one that was sent."""
    source = job.settings.get("source", "")
    if job.recipe != RECIPE or not source.startswith("/"):
        return None
    archive = Path(source)
    if not archive.is_file():
        raise LostArchive(
            f"job '{job.name}': its folder is not kept as {archive} any more",
            hint="plan again: slipway plan FILE",
        )
    return archive


def _digest(archive: Path) -> str:
    return archive.name.removesuffix(_SUFFIX)


def _forget_old(kept: Path) -> None:
    for archive in kept.glob(f"*{_SUFFIX}"):
        with suppress(OSError):
            if time.time() - archive.stat().st_mtime > PROJECT_DAYS * _DAY_SECONDS:
                archive.unlink()
