"""The archive of a job's code where a node reads it: proved by its digest, and unpacked once."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job_request import code_key

MOST_BYTES = 256 << 20  # unpacked; containers/ has a few MB
_AGAIN = "submit the job again with this Slipway"
_GZIP = 16 + zlib.MAX_WBITS


class DamagedCode(SlipwayError):
    """The code is damaged, so none of it is run."""


def ensure_unpacked(folder: Path, digest: str, bucket: str, s3: Any) -> Path:
    """Fetch the code of this digest unless the folder is there; return the folder."""
    if not folder.exists():
        answer = s3.get_object(Bucket=bucket, Key=code_key(digest))
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
