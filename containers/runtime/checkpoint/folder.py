"""Store checkpoints in a folder that all nodes share, published by one rename; keep its lease."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import stat
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path

from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint import manifest
from slipway.containers.runtime.checkpoint.storage import (
    LeaseFile,
    Parts,
    Stretches,
    UnpublishedStep,
    step_name,
)
from slipway.containers.runtime.errors import Refusal

_PUBLISHED = re.compile(r"step-([0-9]{10})", re.ASCII)
_REPLACED = "replaced"  # a damaged step, moved into the draft that takes its place
_LEFT_BEHIND = re.compile(r"(step-[0-9]{10}\.(tmp|trash)-|LEASE\.json\.).+", re.ASCII | re.DOTALL)


class CheckpointFolder:
    """Keep checkpoints in a local or shared folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __str__(self) -> str:
        return str(self.folder)

    def open(self) -> FolderLease:
        self.folder.mkdir(parents=True, exist_ok=True)
        return FolderLease(self.folder / LEASE_NAME)

    def sweep(self) -> None:
        for path in list(self.folder.iterdir()):
            if _LEFT_BEHIND.fullmatch(path.name):
                self._remove(path)

    def steps(self) -> list[int]:
        """Return the published steps. Other files in the folder do not count."""
        try:
            found = [_PUBLISHED.fullmatch(path.name) for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def manifest(self, step: int) -> bytes:
        path = self._path(step)
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise NotADirectoryError("it is a link or a file, not a folder")
        return disk.read_bounded(path / manifest.NAME, manifest.MOST_BYTES)

    def sizes(self, where: UnpublishedStep | int) -> Mapping[str, int]:
        """Return the size of each regular file: nothing else counts, and no link is followed."""
        with suppress(FileNotFoundError):
            found = {entry.name: entry.lstat() for entry in self._path(where).iterdir()}
            return {name: one.st_size for name, one in found.items() if stat.S_ISREG(one.st_mode)}
        return {}

    def file_name(self, draft: UnpublishedStep, rank: int) -> str:
        return manifest.file_name(rank)

    def read(
        self, step: int, name: str, stretches: Stretches, rooms: Sequence[memoryview] = ()
    ) -> Iterator[memoryview]:
        with disk.open_existing(self._path(step) / name) as file:
            for (start, stop), room in zip_longest(stretches, rooms):
                yield disk.read_at(file, start, room or memoryview(bytearray(stop - start)))

    def write(self, draft: UnpublishedStep, rank: int, parts: Parts, moved: Callable[[], None]) -> None:
        folder = self._path(draft)
        folder.mkdir(exist_ok=True)
        path = folder / self.file_name(draft, rank)
        with suppress(FileNotFoundError):
            path.unlink()  # of an earlier save of this step that failed
        disk.write_synced(path, parts, moved)

    def publish(self, draft: UnpublishedStep, content: bytes, check: Callable[[], None]) -> None:
        written, target = self._path(draft), self._path(draft.step)
        disk.write_synced(written / manifest.NAME, [content])
        disk.sync_folder(written)
        is_replaced = target.exists()  # asked before the check: what comes after it is a newer attempt's
        check()
        if is_replaced:
            target.rename(written / _REPLACED)  # fails if a newer attempt has removed the draft
        written.rename(target)  # fails if a newer attempt has published this step
        disk.sync_folder(self.folder)
        if is_replaced:
            disk.discard_folder(target / _REPLACED, self._trash(target))

    def abandon(self, draft: UnpublishedStep) -> None:
        disk.discard_folder(self._path(draft), self._trash(self._path(draft)))

    def discard(self, step: int) -> None:
        disk.discard_folder(self._path(step), self._trash(self._path(step)))

    def beside(self) -> AbstractContextManager[Path]:
        return nullcontext(self.folder)

    def _path(self, where: UnpublishedStep | int) -> Path:
        if isinstance(where, int):
            return self.folder / step_name(where)
        return self.folder / f"{step_name(where.step)}.tmp-{where.attempt}-{where.token}"

    def _remove(self, path: Path) -> None:
        if path.is_symlink() or not path.is_dir():
            with suppress(OSError):
                path.unlink()
        else:
            disk.discard_folder(path, self._trash(path))

    def _trash(self, path: Path) -> Path:
        step = path.name.split(".", 1)[0]
        return path.with_name(f"{step}.trash-{secrets.token_hex(6)}")


@dataclass(frozen=True, slots=True)
class FolderLease:
    """Keep a lease in a file, whose modification time shows that its holder is alive."""

    path: Path

    def read(self) -> bytes | None:
        try:
            return disk.read_bounded(self.path, MOST_LEASE_BYTES)
        except FileNotFoundError:
            return None

    def stamp(self) -> Hashable:
        # NFS may keep a file's times for a minute, but asks the server when the file is opened (nfs(5),
        # "Close-to-open cache consistency"). A lease lives for half a minute.
        try:
            with disk.open_existing(self.path) as file:
                found = os.fstat(file.fileno())
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_ino

    def create(self, content: bytes, token: str) -> bool:
        try:
            disk.create_whole(self.path, content, token=token)
        except FileExistsError:
            return False
        return True

    def replace(self, content: bytes, token: str) -> bool:
        disk.replace_file(self.path, content, token=token)
        return True

    def renew(self) -> None:
        os.utime(self.path)

    def remove(self) -> None:
        self.path.unlink()


# A lease decides who may publish checkpoints: one attempt of one run at a time, and never an older one again.
# Clocks of other machines are not trusted: a lease is alive while this process sees its file change.
LEASE_NAME = "LEASE.json"
DEFAULT_SECONDS = 30.0
_MOST_SECONDS = 600.0
MOST_LEASE_BYTES = 4096
_RENEWALS = 5  # within one lifetime, so that a busy disk or interpreter does not look dead
_LOOKS = 20
_TRIES = 5  # to take a free lease, which its last holder may renew until it learns of that


class FolderInUse(Refusal):
    """Another job writes its checkpoints to this folder."""


class Fenced(Refusal):
    """A newer attempt has taken over, so this one must not publish any more."""


_NUMBER, _TEXT = (int, float), (str,)
_KINDS = {"run": _TEXT, "attempt": (int,), "nonce": _TEXT, "seconds": _NUMBER, "host": _TEXT, "pid": (int,)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    run: str
    attempt: int
    nonce: str
    seconds: float  # after which, unrenewed, it is dead
    host: str
    processes: str  # the namespace in which `pid` means something
    pid: int

    def __post_init__(self) -> None:
        if not all(type(getattr(self, name)) in kinds for name, kinds in _KINDS.items()):
            raise TypeError("a field of another type")

    def __str__(self) -> str:
        return f"run {self.run}, attempt {self.attempt}, process {self.pid} on {self.host}"


def this_process(run: str, attempt: int, seconds: float = DEFAULT_SECONDS) -> Holder:
    return Holder(
        run=run,
        attempt=attempt,
        nonce=secrets.token_hex(6),
        seconds=seconds,
        host=socket.gethostname(),
        processes=_process_namespace(),
        pid=os.getpid(),
    )


class Lease:
    """Hold a place for one attempt. It is taken on creation and renewed by a thread until it is released
    or lost."""

    def __init__(self, file: LeaseFile, holder: Holder, *, where: str) -> None:
        self.holder = holder
        self._file, self._where = file, where
        self._released = threading.Event()
        _take(file, holder, where)
        self._renewal = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._renewal.start()

    def check(self) -> None:
        """Raise Fenced if the lease is lost, or OSError if the storage does not tell. Call it right before
        publishing: a new owner removes what we have not published first."""
        found = _asked(self._file)
        if found is None or found.nonce != self.holder.nonce:
            by = found or "another, whose lease cannot be read"
            raise Fenced(f"{self._where} was taken over by {by}; nothing was published")

    def release(self) -> None:
        self._released.set()
        self._renewal.join()
        found = _read(self._file)
        if found is not None and found.nonce == self.holder.nonce:
            with suppress(OSError):
                self._file.remove()

    def _renew(self) -> None:
        while not self._released.wait(self.holder.seconds / _RENEWALS):
            found = _read(self._file)
            if found is not None and found.nonce != self.holder.nonce:
                return
            with suppress(OSError):
                self._file.renew()


def _take(file: LeaseFile, mine: Holder, where: str) -> None:
    content = json.dumps(asdict(mine)).encode()
    for _ in range(_TRIES):
        if file.create(content, mine.nonce):
            return
        if not _is_free(_asked(file), mine, where):
            _wait_until_dead(file, mine, where)
        if file.replace(content, mine.nonce):
            return
    raise FolderInUse(f"another run took {where} at the same moment", hint="try again")


def _is_free(found: Holder | None, mine: Holder, where: str) -> bool:
    if found is None:
        return False  # unreadable, so nobody knows whose: watch whether anyone renews it
    if found.run == mine.run and found.attempt > mine.attempt:
        raise Fenced(f"{where} belongs to {found}; this is attempt {mine.attempt}, and may not publish")
    if found.run == mine.run and found.attempt < mine.attempt:
        return True
    return found.processes == mine.processes and found.host == mine.host and not _is_alive(found.pid)


def _wait_until_dead(file: LeaseFile, mine: Holder, where: str) -> None:
    found, before = _asked(file), file.stamp()
    patience = min(found.seconds, _MOST_SECONDS) if found else mine.seconds
    ends = time.monotonic() + patience
    while time.monotonic() < ends:
        time.sleep(patience / _LOOKS)
        if (now := file.stamp()) is None:
            return
        if now != before:
            raise FolderInUse(
                f"{where} is in use by {_read(file) or 'another job'}",
                hint="wait for it, cancel it, or name another checkpoint folder",
            )


def _read(file: LeaseFile) -> Holder | None:
    try:
        return _asked(file)
    except OSError:
        return None


def _asked(file: LeaseFile) -> Holder | None:
    """Return who holds the lease, None if that cannot be read; raise OSError if the storage fails."""
    try:
        return Holder(**json.loads(file.read() or b""))
    except (ValueError, TypeError, RecursionError, Refusal):
        return None


def _process_namespace() -> str:
    """Name the namespace among all machines: the kernel numbers namespaces alike on each, and hosts of
    SageMaker have the same names in every job."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return secrets.token_hex(6)  # unknown, so like no other


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
