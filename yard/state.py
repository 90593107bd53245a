"""The yard's folder on disk: the record of its process, its lock, and what `slipway yard down` deletes.

To let the yard make another file: name it in MADE, so that `slipway yard down` deletes it.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from slipway.containers.runtime.named_files import MissingFile, read_bytes
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.text import decode_json

STATE_FILE = "state.json"
LOG_FILE = "server.log"
LOCK_FILE = "lock"
SCRATCH_FOLDER = "tmp"
_MOST_BYTES = 1 << 20
MACHINE_IMAGES = "machine-images"
MADE = (
    STATE_FILE,
    LOG_FILE,
    SCRATCH_FOLDER,
    MACHINE_IMAGES,
    LOCK_FILE,
)  # the lock last: its holder deletes the others


@dataclass(frozen=True, slots=True, kw_only=True)
class YardState:
    """The record of the process that serves the yard."""

    pid: int
    identity: str  # distinguishes this process from a later one with the same pid
    endpoint: str
    started_at: str
    # The secret of its access key. Empty: a yard of an older checkout, which can still be stopped.
    secret: str = field(default="", repr=False)

    def is_running(self) -> bool:
        return process_identity(self.pid) == self.identity


def home() -> Path:
    """Return SLIPWAY_YARD_HOME, else the state folder of the XDG Base Directory Specification."""
    if folder := os.environ.get("SLIPWAY_YARD_HOME"):
        return Path(folder).expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "slipway" / "yard"


def read_state(folder: Path) -> YardState | None:
    """Return the yard's record, or None if there is no valid one."""
    try:
        return YardState(**decode_json(read_bytes(folder / STATE_FILE, _MOST_BYTES)))
    except (MissingFile, ValueError, TypeError):
        return None


def write_state(folder: Path, state: YardState) -> None:
    """Write the record atomically: a reader sees all of it or nothing."""
    draft = folder / f"{STATE_FILE}.{state.pid}"
    draft.unlink(missing_ok=True)
    with open(draft, "x", encoding="utf-8", opener=private) as file:
        json.dump(asdict(state), file)
    draft.replace(folder / STATE_FILE)


def private(path: str, flags: int) -> int:
    """Open a file that only its owner may read; pass it as `opener` to open()."""
    return os.open(path, flags, 0o600)


def remove_made(folder: Path) -> None:
    """Delete only what the yard made, and its folder if nothing else is in it."""
    for path in [*folder.glob(f"{STATE_FILE}.*"), *(folder / name for name in MADE)]:
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        else:
            path.unlink(missing_ok=True)
    with suppress(OSError):  # not empty, or gone
        folder.rmdir()


def remove_tree(path: Path) -> None:
    """Delete a tree, whatever modes its folders have: an overlay's work folder allows only root."""
    for parent, names, _ in os.walk(path):
        for name in names:
            if not (folder := Path(parent, name)).is_symlink():
                with suppress(OSError):
                    folder.chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Allow one `up` or `down` at a time. The kernel releases the lock when its holder ends, in any way."""
    descriptor = _lock(folder)
    try:
        yield
    finally:
        os.close(descriptor)


def _lock(folder: Path) -> int:
    path = folder / LOCK_FILE
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (FileNotFoundError, FileExistsError):  # a `down` is deleting the folder
            if folder.is_file():
                raise
            continue
        except OSError as error:
            raise SlipwayError(
                f"the yard cannot write its folder {folder}: {error.strerror}",
                hint="set SLIPWAY_YARD_HOME to a folder that you may write",
            ) from None
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_still_at(path, descriptor):
            return descriptor
        os.close(descriptor)  # a `down` deleted the file while we waited, so this lock is worthless


def _is_still_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def process_identity(pid: int) -> str | None:
    """Return an identity that differs if the pid is reused; None if no process has it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _identity_from_ps(pid)
    is_zombie, ticks_since_boot = fields[0] == "Z", fields[19]  # proc(5): fields 3 and 22
    return None if is_zombie else f"{boot}:{ticks_since_boot}"


def _identity_from_ps(pid: int) -> str | None:
    """Return the identity from ps, where there is no /proc (macOS)."""
    asked = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() or None


# A script or a test can name an owner in its environment: the yard stops when that process exits, in any way.
# Without one the yard runs until `slipway yard down`.
OWNER_VARIABLE = "SLIPWAY_YARD_UNTIL_EXIT_OF"
POLL_S = 1.0


def end_with_owner(folder: Path) -> None:
    """Stop the yard and delete what it made when its owner exits; without an owner this is a no-op."""
    owner = os.environ.get(OWNER_VARIABLE)
    if not owner:
        return
    if not (owner.isascii() and owner.isdecimal() and int(owner) > 0):
        raise SystemExit(
            f"{OWNER_VARIABLE} is '{owner}', which is not a process id; set it to one, or unset it"
        )
    wait = _wait_for_end(int(owner))

    def follow() -> None:
        wait()
        atexit.register(remove_made, folder)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, name="owner", daemon=True).start()


def _wait_for_end(pid: int) -> Callable[[], object]:
    """Return a function that waits for the process to end; it uses the pid now, before it is reused."""
    if not hasattr(os, "pidfd_open"):
        identity = process_identity(pid)

        def wait() -> None:
            while identity and process_identity(pid) == identity:
                time.sleep(POLL_S)

        return wait
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return lambda: None
    return lambda: select.select([descriptor], [], [])
