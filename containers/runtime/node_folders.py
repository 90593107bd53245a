"""Share folders on a node's own disk: one process fills a folder, and others use it until the last has ended.

A process holds a lock on a file beside the folder, and hands it on to the program that it becomes. The kernel
takes the lock back however that ends, so that a later job knows which folders nobody needs any more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from slipway.containers.runtime.errors import Refusal

_LOCK, _FILLED = ".lock", ".filled"


def hold(
    prefix: str,
    identity: str,
    fill: Callable[[Path], None] = lambda folder: None,
    unused_seconds: float = 0.0,
) -> Path:
    """Return the folder of this identity; the first process fills it, and the others wait.

    It stays until this process has ended, and every program that it became. Whoever fills a folder first
    removes those of its prefix that no process holds, and that none has used for so long.
    """
    root, name = _root(), f"{prefix}{sha256(identity.encode()).hexdigest()[:32]}"
    lock, filled = root / f"{name}{_LOCK}", root / f"{name}{_FILLED}"
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not filled.exists():
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # While we waited, it may have been swept, or filled by another process.
            if _is_same(descriptor, lock) and not filled.exists():
                _sweep(root, prefix, unused_seconds)
                # In its place, as an environment of Python cannot be moved; begin anew after a crash.
                shutil.rmtree(root / name, ignore_errors=True)
                (root / name).mkdir(mode=0o700)
                fill(root / name)
                filled.touch()
            # Not atomic: a process that sweeps may come between, and take the folder.
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        if _is_same(descriptor, lock) and filled.exists():
            os.utime(lock)
            os.set_inheritable(descriptor, True)
            return root / name
        os.close(descriptor)


def _root() -> Path:
    """Return the folder of all shared folders of this user; refuse one that another user could change."""
    root = Path(tempfile.gettempdir()) / f"slipway-{os.geteuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    status = root.lstat()
    if status.st_uid != os.geteuid() or root.is_symlink() or status.st_mode & 0o022:
        raise Refusal(
            f"{root} belongs to somebody else or may be changed by others", hint="remove it, or set TMPDIR"
        )
    return root


def _sweep(root: Path, prefix: str, unused_seconds: float) -> None:
    for lock in root.glob(f"{prefix}*{_LOCK}"):
        with suppress(FileNotFoundError), _if_free(lock) as is_free:
            if is_free and time.time() - lock.stat().st_mtime >= unused_seconds:
                name = lock.name.removesuffix(_LOCK)
                (root / f"{name}{_FILLED}").unlink(missing_ok=True)
                shutil.rmtree(root / name, ignore_errors=True)
                lock.unlink(missing_ok=True)


@contextmanager
def _if_free(lock: Path) -> Iterator[bool]:
    descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


def _is_same(descriptor: int, lock: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), lock.stat())
    except FileNotFoundError:
        return False
