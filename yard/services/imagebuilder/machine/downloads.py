"""Files that a step fetches (WebDownload, S3Download): fetched by the yard, held against their checksum.

Another algorithm is a name in ALGORITHMS, as hashlib has it.
"""

from __future__ import annotations

import hashlib
import shutil
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipway.yard.services.imagebuilder.components.actions import Download

ALGORITHMS = ("md5", "sha1", "sha256", "sha512")
TIMEOUT_SECONDS = 60  # without a byte


class WrongDownload(Exception):
    """Tells that a download differs from what the component names."""


def fetch(downloads: Sequence[Download], folder: Path, s3: Any) -> None:
    """Fetch into the folder; `s3` is boto3's, with the rights of the machine."""
    for download in downloads:
        path = folder / download.place
        path.unlink(missing_ok=True)
        if download.source.startswith("s3://"):
            bucket, _, key = download.source.removeprefix("s3://").partition("/")
            s3.download_file(bucket, key, str(path))
        else:
            _fetch_from_web(download.source, path)
        if download.checksum:
            _check(download, path)


def _fetch_from_web(source: str, path: Path) -> None:
    with urllib.request.urlopen(source, timeout=TIMEOUT_SECONDS) as answer, path.open("wb") as file:  # noqa: S310 - actions.py takes http and https only
        shutil.copyfileobj(answer, file)


def _check(download: Download, path: Path) -> None:
    if download.algorithm not in ALGORITHMS:
        allowed = ", ".join(ALGORITHMS)
        raise WrongDownload(f"'{download.algorithm}' is no algorithm for a checksum; allowed are {allowed}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, download.algorithm).hexdigest()
    if found != download.checksum.lower():
        raise WrongDownload(
            f"{download.source} has the {download.algorithm} {found}, and {download.checksum} is wanted"
        )
