"""The code of a job on a node: fetched by its digest, proved, and unpacked once where all nodes find it."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any

from slipway.jobs.core.errors import SlipwayError
from slipway.jobs.core.mpi.mpi_job import code_key
from slipway.jobs.platforms.mpi.node.setting import NodePaths, Setup

MOST_BYTES = 256 << 20  # unpacked; containers/ has a few MB
_AGAIN = "submit the job again with this Slipway"
_GZIP = 16 + zlib.MAX_WBITS


class DamagedCode(SlipwayError):
    """The code is damaged, so none of it is run."""


def code_folder(where: NodePaths, setup: Setup, digest: str) -> Path:
    """Return the folder for code: on shared files if there are any, else where only the jobs' user writes."""
    if setup.file_system_mount:
        return Path(setup.file_system_mount) / "slipway" / "code" / digest
    return where.run / "code" / digest


def ensure_code(where: NodePaths, setup: Setup, digest: str, s3: Any) -> Path:
    folder = code_folder(where, setup, digest)
    if not folder.exists():
        answer = s3.get_object(Bucket=setup.bucket, Key=code_key(digest))
        unpack(_proved(answer["Body"].read(), digest), folder)
    return folder


def unpack(archive: bytes, folder: Path) -> None:
    """Unpack atomically; a second caller finds the folder there."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    new = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                _extract(tar, member, new)
        new.chmod(0o755)
        new.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write one plain file below the folder, without extractall(): Debian 12's Python lacks its filters."""
    target = folder / member.name
    source = tar.extractfile(member) if member.isfile() else None
    if source is None or not _is_below(target, folder):
        raise DamagedCode(f"the code holds {member.name!r}, which is no file below its folder", hint=_AGAIN)
    target.parent.mkdir(parents=True, exist_ok=True)
    with source, target.open("xb") as copy:
        shutil.copyfileobj(source, copy)
    target.chmod(member.mode & 0o755)


def _is_below(target: Path, folder: Path) -> bool:
    return ".." not in target.parts and target.is_relative_to(folder)


def _proved(packed: bytes, digest: str) -> bytes:
    """Decompress and check the digest, which is that of the archive: compression differs by machine."""
    reader = zlib.decompressobj(_GZIP)
    try:
        archive = reader.decompress(packed, MOST_BYTES)
    except zlib.error as error:
        raise _damaged(digest, f"is not gzip ({error})") from None
    if reader.unconsumed_tail:
        raise _damaged(digest, f"unpacks to more than {MOST_BYTES} bytes")
    found = sha256(archive).hexdigest()
    if found != digest:
        raise _damaged(digest, f"has the digest {found}")
    return archive


def _damaged(digest: str, what: str) -> DamagedCode:
    key = code_key(digest)
    return DamagedCode(f"{key} {what}", hint=f"delete the object {key} and submit the job again")
