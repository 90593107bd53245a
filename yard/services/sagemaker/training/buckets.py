"""Copies a training job's data between S3 and its instances, with the rights of its role.

Channels and checkpoints are downloaded before the start; checkpoints and charts are uploaded while it runs,
and archives at its end.
"""

from __future__ import annotations

import logging
import shutil
import tarfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

log = logging.getLogger(__name__)

SYNC_S = 1.0  # AWS only says that it copies "continuously"


class TransferFailed(Exception):
    """Says in SageMaker's words what could not be copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    bucket: str
    prefix: str

    @classmethod
    def of(cls, uri: str) -> Location:
        parts = urlsplit(uri)
        return cls(bucket=parts.netloc, prefix=parts.path.lstrip("/"))

    def below(self, *names: str) -> str:
        return "/".join([*filter(None, [self.prefix.rstrip("/")]), *names])


def download(client: Any, uri: str, folders: Sequence[Path], *, is_shared_out: bool = False) -> int:
    """Copy all objects below the prefix into every folder, or each into one of them; return their number."""
    place = Location.of(uri)
    try:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.prefix)
        found = [item["Key"] for page in pages for item in page.get("Contents", ())]
        keys = [key for key in found if not key.endswith("/")]
        for number, key in enumerate(keys):
            name = key.removeprefix(place.prefix).lstrip("/") or key.rpartition("/")[2]
            wanted = [folders[number % len(folders)]] if is_shared_out else folders
            targets = [folder / name for folder in wanted]
            for target in targets:
                target.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(place.bucket, key, str(targets[0]))
            for target in targets[1:]:
                shutil.copyfile(targets[0], target)
    except (ClientError, BotoCoreError) as error:
        raise TransferFailed(
            f"Data download failed: Please ensure that the role may list and read {uri}. {error}"
        ) from error
    return len(keys)


def upload(client: Any, folder: Path, place: Location, settings: Mapping[str, str]) -> None:
    """Copy every file of the folder below the prefix."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        _put(client, path, place.bucket, place.below(path.relative_to(folder).as_posix()), settings)


def upload_archive(
    client: Any, folders: Sequence[Path], place: Location, settings: Mapping[str, str]
) -> None:
    """Upload the content of all instances' folders as one archive."""
    archive = folders[0].parent / f"{folders[0].name}.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        known: set[str] = set()
        for folder in folders:
            for path in sorted(folder.rglob("*")):
                name = path.relative_to(folder).as_posix()
                if name not in known:
                    packed.add(path, arcname=name, recursive=False)
                    known.add(name)
    _put(client, archive, place.bucket, place.prefix, settings)


@dataclass(slots=True, kw_only=True)
class FolderSync:
    """Copies new and changed files of the instances' folders to S3; a deleted file stays in S3."""

    client: Any
    uri: str
    folders: Sequence[Path]
    _known: dict[Path, tuple[int, int]] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Start copying; files that exist already came from S3 and are not copied."""
        self._known = {path: stamp for _, path, stamp in self._files()}
        self._thread = threading.Thread(target=self._run, name=f"copies to {self.uri}", daemon=True)
        self._thread.start()

    def finish(self, *, is_complete: bool) -> None:
        """Stop; if the instances still exist, first copy what is left."""
        self._over.set()
        if self._thread:
            self._thread.join()
        if is_complete:
            self._copy()

    def _run(self) -> None:
        while not self._over.wait(SYNC_S):
            self._copy()

    def _copy(self) -> None:
        place = Location.of(self.uri)
        for folder, path, stamp in self._files():
            if self._known.get(path) == stamp:
                continue
            try:
                name = path.relative_to(folder).as_posix()
                _put(self.client, path, place.bucket, place.below(name), {})
                self._known[path] = stamp
            except FileNotFoundError:
                continue  # renamed meanwhile
            except TransferFailed as problem:
                log.warning("%s", problem)

    def _files(self) -> list[tuple[Path, Path, tuple[int, int]]]:
        found = []
        for folder in self.folders:
            for path in sorted(folder.rglob("*")):
                try:
                    facts = path.stat()
                except FileNotFoundError:
                    continue
                if path.is_file():
                    found.append((folder, path, (facts.st_mtime_ns, facts.st_size)))
        return found


def _put(client: Any, path: Path, bucket: str, key: str, settings: Mapping[str, str]) -> None:
    try:
        with path.open("rb") as body:
            client.put_object(Bucket=bucket, Key=key, Body=body, **settings)
    except (ClientError, BotoCoreError) as error:
        raise TransferFailed(f"Please ensure that the role may write s3://{bucket}/{key}. {error}") from error
