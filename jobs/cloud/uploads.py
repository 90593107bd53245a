"""Copies files into a cluster's bucket, for its jobs to read. Nothing in the bucket is deleted."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path

from slipway.containers.runtime.named_files import open_regular
from slipway.jobs.cloud.aws import client
from slipway.jobs.cloud.objects import find_object, send_file
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import JOB_PREFIXES
from slipway.jobs.words.targets import Target

_LONGEST_KEY = 1024  # bytes (S3 user guide, "Naming Amazon S3 objects")
_DIGEST = "sha256"  # key of object metadata: the ETag of a file that was sent in parts is no digest of it


class CannotUpload(SlipwayError):
    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    path: Path
    key: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    address: str  # the URL for a job's setting
    files: int
    sent: int
    sent_bytes: int


def upload(path: Path, name: str, target: Target, now: Callable[[int, int], None]) -> Uploaded:
    """Send the files that are not there yet; call `now` with the bytes done and in total."""
    if not name.isprintable() or any(part in ("", ".", "..") for part in name.split("/")):
        raise CannotUpload(
            f"--name {name!r} cannot be part of an S3 address",
            hint="give a name such as glue/mrpc, without '..'",
        )
    prefix = f"{JOB_PREFIXES[0]}{name}"
    files = list(_files(path, prefix))
    if not files:
        raise CannotUpload(f"{path} holds no file", hint="give a file, or a folder with files in it")
    s3 = client("s3", target.region)
    owner = {"Bucket": target.bucket, "ExpectedBucketOwner": target.account}
    total, done, sent = sum(file.size_bytes for file in files), 0, []
    for file in files:
        now(done, total)
        with open_regular(file.path, follow_links=False) as content:
            digest = file_digest(content, _DIGEST).hexdigest()
        there = find_object(s3, "HeadObject", **owner, Key=file.key)
        if there is None or there.get("Metadata", {}).get(_DIGEST) != digest:
            extra = {"ExpectedBucketOwner": target.account, "Metadata": {_DIGEST: digest}}
            send_file(s3, file.path, bucket=target.bucket, key=file.key, extra=extra)
            sent.append(file.size_bytes)
        done += file.size_bytes
    return Uploaded(
        address=f"s3://{target.bucket}/{prefix}", files=len(files), sent=len(sent), sent_bytes=sum(sent)
    )


def _files(path: Path, prefix: str) -> Iterator[File]:
    """Yield the files in order of their names; refuse links, which may lead anywhere."""
    if not path.exists():
        raise CannotUpload(f"{path} does not exist", hint="give a file or a folder")
    if path.is_file():
        yield _file(path, prefix)
        return
    for folder, folders, names in os.walk(path, onerror=_raise):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        linked = [each for each in folders if Path(folder, each).is_symlink()]
        for name in sorted((*linked, *(each for each in names if not each.startswith(".")))):
            found = Path(folder, name)
            yield _file(found, f"{prefix}/{found.relative_to(path).as_posix()}")


def _raise(error: OSError) -> None:
    """Refuse a folder that cannot be read: os.walk would silently skip its files."""
    raise CannotUpload(f"{error.filename} cannot be read: {error.strerror}", hint="make it readable")


def _file(path: Path, key: str) -> File:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise CannotUpload(f"{path} is not a regular file", hint="put the file itself there, or leave it out")
    if (size := len(key.encode())) > _LONGEST_KEY:
        raise CannotUpload(
            f"{path} has {size:,} bytes as a name in S3, which takes {_LONGEST_KEY:,}",
            hint="give it a shorter path",
        )
    return File(path=path, key=key, size_bytes=status.st_size)
