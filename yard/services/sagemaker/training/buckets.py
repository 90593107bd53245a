"""What a training job moves between S3 and its instances, with the rights of its role.

Channels and checkpoints come down before the start; checkpoints and charts go up while it runs; archives at
its end.
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

SYNC_S = 1.0  # AWS says no more than that it copies "continuously"


class TransferFailed(Exception):
    """Says in SageMaker's words what could not be moved."""


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
    """Copy all below the prefix into every folder, or each object into one of them; return how many."""
    place = Location.of(uri)
    try:
        keys = _keys(client, place)
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
    """Pack what the folders of all instances hold into one archive at the place."""
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
    """Copies to S3 what appears or changes in folders of the instances; what goes there stays in S3."""

    client: Any
    uri: str
    folders: Sequence[Path]
    _known: dict[Path, tuple[int, int]] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Take what is there for known: it came from S3."""
        self._known = {path: stamp for _, path, stamp in self._files()}
        self._thread = threading.Thread(target=self._run, name=f"copies to {self.uri}", daemon=True)
        self._thread.start()

    def finish(self, *, is_complete: bool) -> None:
        """Stop, and copy what is left if the instances are there to send it."""
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
                continue  # it was renamed since
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


def _keys(client: Any, place: Location) -> list[str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.prefix)
    return [
        item["Key"] for page in pages for item in page.get("Contents", ()) if not item["Key"].endswith("/")
    ]


def _put(client: Any, path: Path, bucket: str, key: str, settings: Mapping[str, str]) -> None:
    try:
        with path.open("rb") as body:
            client.put_object(Bucket=bucket, Key=key, Body=body, **settings)
    except (ClientError, BotoCoreError) as error:
        raise TransferFailed(f"Please ensure that the role may write s3://{bucket}/{key}. {error}") from error
