"""Store checkpoints in S3, below s3://bucket/prefix: one conditional write of the manifest publishes a step.

`step-N/ATTEMPT-TOKEN/rank-…` are the files of a step, and `step-N/MANIFEST.json` names them. A file that no
manifest names does not count, and the next holder of the lease removes it. obstore signs, finds credentials
and retries, as for reading data (containers/data/sources/source_s3.py).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError
from obstore.store import S3Store

from slipway.containers.data.sources.locations import bucket_and_key
from slipway.containers.data.sources.source_s3 import MAY_READ, Bucket, endpoint_of, explained, store
from slipway.containers.runtime.checkpoint import manifest
from slipway.containers.runtime.checkpoint.folder import LEASE_NAME, MOST_LEASE_BYTES
from slipway.containers.runtime.checkpoint.manifest import DamagedCheckpoint, OtherFormat
from slipway.containers.runtime.checkpoint.resume import read_manifest
from slipway.containers.runtime.checkpoint.storage import (
    Parts,
    Stretches,
    UnpublishedStep,
    Unreachable,
    step_name,
)
from slipway.containers.runtime.named_files import UnusableFile

_PUBLISHED = re.compile(rf"step-([0-9]{{10}})/{manifest.NAME}", re.ASCII)
_OURS = re.compile(r"step-([0-9]{10})/([0-9]{1,9}-[0-9a-f]{12}/rank-[0-9]{5,7}\.safetensors)", re.ASCII)
_PART_BYTES = 16 << 20  # an upload has at most 10,000 parts, so a rank can write 160 GB
_PARTS_AT_ONCE = 4
_RANGES_AT_ONCE = 16  # chunks per call of obstore, which reads some of them in parallel
_MAY_WRITE = "allow s3:PutObject and s3:DeleteObject there to the job's role"
# Parts of obstore's messages for what only a person mends.
_LASTING = ("<Code>NoSuchBucket<", "403 Forbidden", "401 Unauthorized", "PermanentRedirect")
_TRIES = 3  # for a conditional write whose answer was lost, or that met another one
_CONFLICT_SECONDS = 0.2


def open_bucket(address: str) -> CheckpointBucket:
    """Return the checkpoints below s3://bucket/prefix, at the endpoint of the environment."""
    name, prefix = bucket_and_key(address)
    return CheckpointBucket(Bucket(name, endpoint_of(os.environ), None), prefix)


class CheckpointBucket:
    """Keep checkpoints below a prefix of a bucket."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""

    def __str__(self) -> str:
        return f"s3://{self._bucket.name}/{self._prefix}".rstrip("/")

    def open(self) -> BucketLease:
        return BucketLease(self, LEASE_NAME)

    def sweep(self) -> None:
        """Remove the files that no manifest names; leave steps whose manifest has another format."""
        held: dict[int, list[str]] = {}
        for key in self.below(""):
            if match := _OURS.fullmatch(key):
                held.setdefault(int(match[1]), []).append(match[2])
        for step, names in held.items():
            try:
                named = {file.name for file in read_manifest(self, step).ranks}
            except OtherFormat:
                continue
            except DamagedCheckpoint:
                named = set(names) if step in self.steps() else set()
            self._remove([f"{step_name(step)}/{name}" for name in names if name not in named])

    def steps(self) -> list[int]:
        found = [_PUBLISHED.fullmatch(key) for key in self.below("")]
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def manifest(self, step: int) -> bytes:
        return self.get(f"{step_name(step)}/{manifest.NAME}", manifest.MOST_BYTES)[0]

    def sizes(self, where: UnpublishedStep | int) -> Mapping[str, int]:
        return self.below(f"{step_name(where if isinstance(where, int) else where.step)}/")

    def file_name(self, draft: UnpublishedStep, rank: int) -> str:
        return f"{draft.attempt}-{draft.token}/{manifest.file_name(rank)}"

    def read(
        self, step: int, name: str, stretches: Stretches, rooms: Sequence[memoryview] = ()
    ) -> Iterator[memoryview]:
        key = f"{step_name(step)}/{name}"
        for begin in range(0, len(stretches), _RANGES_AT_ONCE):
            some = stretches[begin : begin + _RANGES_AT_ONCE]
            starts, ends = [start for start, _ in some], [end for _, end in some]
            with self.failures(key):
                found = self.store.get_ranges(self._prefix + key, starts=starts, ends=ends)
            for part, room in zip_longest(found, rooms[begin : begin + len(some)]):
                if room is None or len(room) != len(part):
                    yield memoryview(bytearray(part))
                    continue
                room[:] = part
                yield room

    def write(self, draft: UnpublishedStep, rank: int, parts: Parts, moved: Callable[[], None]) -> None:
        def watched() -> Iterator[bytes]:
            for part in parts:
                yield bytes(part)
                moved()

        key = f"{step_name(draft.step)}/{self.file_name(draft, rank)}"
        with self.failures(key, _MAY_WRITE):
            obstore.put(
                self.store,
                self._prefix + key,
                watched(),
                chunk_size=_PART_BYTES,
                max_concurrency=_PARTS_AT_ONCE,
            )

    def publish(self, draft: UnpublishedStep, content: bytes, check: Callable[[], None]) -> None:
        """Replace the manifest only if it is the one that was there before the check."""
        folder, own = f"{step_name(draft.step)}/", f"{draft.attempt}-{draft.token}/"
        key = folder + manifest.NAME
        replaced = self._etag(key)
        names = self.below(folder) if replaced else ()
        older = [name for name in names if not name.startswith((own, manifest.NAME))]
        check()
        put = self.replace(key, content, replaced) if replaced else self.create(key, content)
        if put is None:
            raise FileExistsError(f"another run published {self}/{key} at the same moment")
        if replaced:
            self._remove([folder + name for name in older])

    def abandon(self, draft: UnpublishedStep) -> None:
        folder = f"{step_name(draft.step)}/{draft.attempt}-{draft.token}/"
        self._remove([folder + name for name in self.below(folder)])

    def discard(self, step: int) -> None:
        """Remove a step, its manifest first: a step without a manifest does not count."""
        folder = f"{step_name(step)}/"
        self._remove([folder + manifest.NAME])
        self._remove([folder + name for name in self.below(folder)])

    @contextmanager
    def beside(self) -> Iterator[Path]:
        """Yield a local folder whose files are uploaded to the prefix afterwards."""
        with TemporaryDirectory(prefix="beside-checkpoints-") as local:
            yield Path(local)
            for path in sorted(Path(local).rglob("*")):
                key = str(path.relative_to(local))
                if path.is_file():
                    with self.failures(key, _MAY_WRITE):
                        obstore.put(self.store, self._prefix + key, path)

    @property
    def store(self) -> S3Store:
        return store(self._bucket)

    def below(self, folder: str) -> dict[str, int]:
        """Return the size of each object below a folder of the prefix."""
        begin = self._prefix + folder
        with self.failures(folder):
            listed = [found for some in self.store.list(begin or None) for found in some]
        return {found["path"][len(begin) :]: found["size"] for found in listed}

    def get(self, key: str, most_bytes: int) -> tuple[bytes, str]:
        """Return an object's content and ETag."""
        with self.failures(key):
            found = self.store.get(self._prefix + key)
            if found.meta["size"] > most_bytes:
                raise UnusableFile(
                    f"{self}/{key} has {found.meta['size']} bytes, and at most {most_bytes} are read"
                )
            return found.bytes().to_bytes(), found.meta["e_tag"] or ""

    def create(self, key: str, content: bytes) -> str | None:
        """Write an object that must not exist yet; return its ETag, or None if it exists."""
        return self._put_if(key, content, "create")

    def replace(self, key: str, content: bytes, etag: str) -> str | None:
        """Replace the version with this ETag; return the new ETag, or None if the object has changed."""
        return self._put_if(key, content, etag)

    def _put_if(self, key: str, content: bytes, condition: str) -> str | None:
        mode = "create" if condition == "create" else {"e_tag": condition}
        failure: BaseException | None = None
        for _ in range(_TRIES):
            try:
                put = obstore.put(self.store, self._prefix + key, content, mode=mode, use_multipart=False)  # type: ignore[arg-type]  # as PutMode says
                return put["e_tag"]
            except (AlreadyExistsError, PreconditionError, NotFoundError) as error:
                etag = self._etag_if(key, content)  # an earlier try succeeded, and its answer was lost
                if etag or condition != "create" or self._etag(key):
                    return etag
                failure = error  # 409: S3 wrote nothing, as another request for the key was on its way
                time.sleep(_CONFLICT_SECONDS)
            except (BaseError, OSError) as error:
                failure = error
                if etag := self._etag_if(key, content):
                    return etag
        raise self._explained(failure, key, _MAY_WRITE)

    def _etag_if(self, key: str, content: bytes) -> str | None:
        try:
            found, etag = self.get(key, manifest.MOST_BYTES)
        except FileNotFoundError:
            return None
        return etag if found == content else None

    def _etag(self, key: str) -> str:
        """Return the ETag of an object, or "" if there is none."""
        try:
            with self.failures(key):
                return self.store.head(self._prefix + key)["e_tag"] or ""
        except FileNotFoundError:
            return ""

    def _remove(self, keys: list[str]) -> None:
        if keys:
            with self.failures(keys[0], _MAY_WRITE):
                self.store.delete([self._prefix + key for key in keys])

    @contextmanager
    def failures(self, key: str, permission: str = MAY_READ) -> Iterator[None]:
        """Turn obstore's errors into OSErrors whose message holds no secret."""
        try:
            yield
        except NotFoundError:
            raise FileNotFoundError(f"{self}/{key} is missing") from None
        except BaseError as error:
            raise self._explained(error, key, permission) from None

    def _explained(self, error: BaseException | None, key: str, permission: str) -> Unreachable:
        assert isinstance(error, Exception), "something failed"
        found = Unreachable(str(explained(error, f"{self}/{key}", permission)))
        found.lasts = any(words in str(error) for words in _LASTING)
        return found


class BucketLease:
    """Keep a lease in an object; every write is conditional on the version that was read before."""

    _RELEASED = b"{}"

    def __init__(self, bucket: CheckpointBucket, key: str) -> None:
        self._bucket, self._key = bucket, key
        self._seen = (b"", "")  # content and ETag of the lease that was read last
        self._own = (b"", "")  # content and ETag of the lease that this process wrote
        self._renewals = 0

    def read(self) -> bytes | None:
        found = self._find()
        return found[0] if found else None

    def stamp(self) -> Hashable:
        found = self._find()
        return found[1] if found else None

    def create(self, content: bytes, token: str) -> bool:
        etag = self._bucket.create(self._key, content)
        if etag is None and (found := self._find()) and found[0] == self._RELEASED:
            etag = self._bucket.replace(self._key, content, found[1])
        self._own = (content, etag or "")
        return etag is not None

    def replace(self, content: bytes, token: str) -> bool:
        seen = self._seen[1]
        put = self._bucket.replace(self._key, content, seen) if seen else None
        etag = put or self._bucket.create(self._key, content)
        if etag is not None:
            self._own = (content, etag)
        return etag is not None

    def renew(self) -> None:
        """Write the lease again with other trailing blanks: the new ETag shows that the holder is alive."""
        content, etag = self._own
        self._renewals = self._renewals % 500 + 1
        renewed = self._bucket.replace(self._key, content + b" " * self._renewals, etag)
        if renewed is None and (found := self._find()) and found[0].rstrip() == content:
            renewed = found[1]  # an earlier renewal succeeded, and its answer was lost
        self._own = (content, renewed or etag)

    def remove(self) -> None:
        """Write that nobody holds the lease: not every S3 has conditional deletes."""
        self._bucket.replace(self._key, self._RELEASED, self._own[1])

    def _find(self) -> tuple[bytes, str] | None:
        try:
            self._seen = self._bucket.get(self._key, MOST_LEASE_BYTES)
        except FileNotFoundError:
            self._seen = (b"", "")
            return None
        return self._seen
