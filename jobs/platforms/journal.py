"""Records what this machine is about to submit, and the result: written and synced before anything is sent.

Each job has one JSON file, under $XDG_STATE_HOME/slipway/submissions, by endpoint, account and region. An
entry without an id means that the platform may have taken the job: ask it before sending again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from slipway.containers.runtime import disk
from slipway.containers.runtime.named_files import MissingFile, UnusableFile, read_text
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.given import wrong_fields
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import refuse_newer

SCHEMA_VERSION = 1
_PRIVATE = 0o700
_AWS = "aws"
_MOST_BYTES = 1 << 20


class NoJournal(SlipwayError):
    """Without a journal a job could run twice, so nothing is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    name: str
    target: str
    recipe: str
    nodes: int
    image: str
    image_digest: str | None
    written_at: int  # Unix seconds
    job_id: str | None = None  # None: not known to be submitted


def journal_folder(target: Target, endpoint: str | None) -> Path:
    return _folder_of(endpoint) / target.account / target.region


def submitted_entries(endpoint: str | None) -> Iterator[Entry]:
    """Yield every valid entry of this machine, of all accounts and regions."""
    for path in sorted(_folder_of(endpoint).glob("*/*/*.json")):
        with suppress(NoJournal):
            if entry := Journal(folder=path.parent).read(path.stem):
                yield entry


def submitted_here(target: Target, name: str, endpoint: str | None) -> bool:
    """Return True if this machine submitted the job; where its journal cannot be read, who knows."""
    try:
        return (journal_folder(target, endpoint) / f"{name}.json").exists()
    except OSError:
        return True


def _folder_of(endpoint: str | None) -> Path:
    where = urlsplit(endpoint).netloc.replace(":", "-") if endpoint else _AWS
    return state_home() / "slipway" / "submissions" / where


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    folder: Path

    @contextmanager
    def locked(self, name: str, waiting: Callable[[], None]) -> Iterator[Entry | None]:
        """Let two terminals submit the same job one after the other; the second calls `waiting`.

        It yields the job's entry, and refuses an entry of a newer Slipway without changing it.
        """
        with _explained(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
            lock = os.open(self.folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with _explained(self.folder):  # not every file system has locks
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    waiting()
                    fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.read(name)
        finally:
            os.close(lock)

    def read(self, name: str) -> Entry | None:
        with _explained(self.folder):
            try:
                text = read_text(self._path(name), _MOST_BYTES)
            except MissingFile:
                return None
        # A damaged entry is none, since the platform knows the job, too.
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, dict):
            return None
        refuse_newer(record.get("schema"), SCHEMA_VERSION, str(self._path(name)))
        if wrong_fields(Entry, record) or record["name"] != name:
            return None
        return Entry(**{key: record[key] for key in Entry.__dataclass_fields__})

    def write(self, entry: Entry) -> None:
        """Write atomically and sync to disk."""
        text = json.dumps({"schema": SCHEMA_VERSION, **asdict(entry)})
        with _explained(self.folder):
            disk.replace_file(self._path(entry.name), text.encode(), token=str(os.getpid()))

    def remove(self, name: str) -> None:
        """Remove the entry of a job that was certainly refused."""
        with _explained(self.folder), suppress(FileNotFoundError):
            self._path(name).unlink()
            disk.sync_folder(self.folder)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def state_home() -> Path:
    """Return the folder for state; a relative XDG_STATE_HOME is ignored, as its specification says."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".local" / "state"


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, UnusableFile) as error:
        reason = error.message if isinstance(error, UnusableFile) else error.strerror or error
        raise NoJournal(
            f"the journal of submissions in {folder} cannot be used: {reason}",
            hint="free some space, or set XDG_STATE_HOME to a folder that you can write; nothing was sent",
        ) from None
