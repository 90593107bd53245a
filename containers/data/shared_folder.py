"""Coordinate ranks that prepare data in one folder, and find the places that they read."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from slipway.containers.data.sources.locations import is_remote, open_source, public
from slipway.containers.data.sources.sources import LocalSource, Source, local_source, read_whole
from slipway.containers.data.tokens.engine import (
    MOST_BYTES,
    Vocabulary,
    parse_vocabulary,
    read_vocabulary,
)
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.disk import folder_within
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

POLL_SECONDS = 0.2
PATIENCE_SECONDS = 24 * 3600.0  # if another node is lost, the launcher ends the job long before


def data_folder(contract: LaunchContract) -> Path:
    if contract.data is None:
        raise Refusal(
            "there is no data folder", hint="submit with --data, or to a cluster with a file system"
        )
    if is_remote(contract.data):
        raise Refusal(
            f"the data folder is {shown(public(contract.data))}, but prepared data is written to local files",
            hint="give the text as --set input=s3://…, and a path as --data",
        )
    root = Path(contract.data)
    root.mkdir(parents=True, exist_ok=True)
    return root


def workers_of(contract: LaunchContract) -> int:
    """Return a rank's share of the node's processors, at least one."""
    return max(1, (os.cpu_count() or 1) // contract.local_world)


KEPT_SECONDS = 7 * 24 * 3600.0  # otherwise the leftovers of jobs would fill the disk of a long-lived node


def changed_at(source: Source) -> list[int]:
    """Return when each local file was changed; remote files have an ETag instead, and give an empty list."""
    if not isinstance(source, LocalSource):
        return []
    return [(source.root / file.name).stat().st_mtime_ns for file in source.files]


def within(root: Path, place: str) -> Path:
    return folder_within(str(root), *place.split("/"))


def source_at(place: str, root: Path, contract: LaunchContract) -> Source:
    """Open an address, or a path below the data folder."""
    if is_remote(place):
        return open_source(place, bucket_owner=contract.account)
    return local_source(within(root, place))


def vocabulary_at(place: str, root: Path, contract: LaunchContract) -> Vocabulary:
    if not is_remote(place):
        return read_vocabulary(within(root, place))
    there = open_source(place, bucket_owner=contract.account)
    sizes = [file.size_bytes for file in there.files]
    if len(sizes) != 1 or sizes[0] > MOST_BYTES:
        raise Refusal(
            f"vocabulary is {shown(public(place))}, which has {len(sizes)} files of {sum(sizes):,} bytes",
            hint=f"name one vocab.txt of at most {MOST_BYTES >> 20} MiB",
        )
    return parse_vocabulary(public(place), read_whole(there, there.files[0].name))


def write_once(contract: LaunchContract, path: Path, write: Callable[[Path], None]) -> None:
    """Write a file atomically on the first rank; the others wait for it."""
    if contract.rank == 0 and not path.exists():
        unfinished = path.with_name(f".{path.name}-{contract.attempt}")
        write(unfinished)
        unfinished.replace(path)
    wait_until(path.exists, f"rank 0 has not written {path}")


def wait_for_claim(folder: Path, plan: Path) -> None:
    """Wait until rank 0 has claimed the folder by writing its plan."""
    wait_until(plan.exists, f"rank 0 has not claimed {folder}")


def wait_for_all(numbers: Iterable[int], is_made: Callable[[int], bool], complaint: str) -> None:
    """Wait until every part is made; stop asking about a part once it is."""
    missing = deque(numbers)

    def are_made() -> bool:
        while missing and is_made(missing[0]):
            missing.popleft()
        return not missing

    wait_until(are_made, complaint)


def wait_until(is_so: Callable[[], bool], complaint: str, seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise Refusal(complaint, hint="look at the other ranks' logs")
        time.sleep(POLL_SECONDS)
