"""Prepare a dataset: plan, make the shards that are missing or damaged, and write the manifest last.

`prepare` is the door for other programs; prepare_bert is its command line, merge joins what an array made.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from slipway.containers.data.claims import claim
from slipway.containers.data.errors import DataError
from slipway.containers.data.rows.manifest import PLAN, DatasetManifest, RowPlan, plan_of, refuse_newer
from slipway.containers.data.rows.merge import merge
from slipway.containers.data.rows.progress import PreparationProgress
from slipway.containers.data.rows.work import ShardWork
from slipway.containers.data.rows.workers import make_shards
from slipway.containers.data.sources.origin import NAME as ORIGIN
from slipway.containers.data.sources.origin import origin_of, write_origin
from slipway.containers.data.sources.pieces import MOST_SHARDS, plan_shards, shards_for
from slipway.containers.data.sources.sources import LocalSource, Source
from slipway.containers.data.text.documents import read_json
from slipway.containers.data.tokens.settings import TokenSettings
from slipway.containers.data.tokens.vocabulary import write_vocabulary

MOST_WORKERS = 1024
VOCABULARY = "vocab.txt"  # beside the shards, for the model that is trained on them


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Say how the work is spread. Nothing of it changes the rows."""

    workers: int = 1
    array_index: int = 0
    array_size: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= MOST_WORKERS:
            raise DataError(f"--workers is {self.workers}", hint=f"give a number from 1 to {MOST_WORKERS}")
        if not 0 <= self.array_index < self.array_size:
            raise DataError(
                f"--array-index is {self.array_index} of --array-size {self.array_size}",
                hint="indices count from 0 and stay below the size",
            )


def prepare(
    source: Source, settings: TokenSettings, folder: Path, share: Share, shards: int | None = None
) -> DatasetManifest | None:
    """Make this share of the shards; return the manifest, or None if other nodes of an array are not done."""
    shards = shards_for(source) if shards is None else shards
    if not 1 <= shards <= MOST_SHARDS:
        raise DataError(f"--shards is {shards}", hint=f"give a number from 1 to {MOST_SHARDS}")
    check_output(folder, source)
    plan = plan_of(settings, source, shards)
    with lone_writer(folder, share.array_index):
        _claim(folder, plan)
        if share.array_index == 0 or not (folder / ORIGIN).exists():
            write_origin(folder, source)
        if share.array_index == 0 or not (folder / VOCABULARY).exists():
            _keep_vocabulary(folder, settings, share)
        work = ShardWork(
            source=source,
            settings=settings,
            folder=folder,
            plan=plan,
            shards=tuple(map(tuple, plan_shards(source, shards))),
            input_version=origin_of(source).version,
        )
        numbers = range(share.array_index, shards, share.array_size)
        total = sum(piece.stop - piece.start for number in numbers for piece in work.shards[number])
        make_shards(work, numbers, share.workers, PreparationProgress(total_bytes=total, shards=len(numbers)))
        return merge(folder) if share.array_size == 1 else None


def _keep_vocabulary(folder: Path, settings: TokenSettings, share: Share) -> None:
    unfinished = folder / f".{VOCABULARY}-{share.array_index}"
    write_vocabulary(settings.vocabulary, unfinished)
    unfinished.replace(folder / VOCABULARY)


def check_output(folder: Path, source: Source) -> None:
    resolved = folder.resolve()
    if resolved in (Path("/"), Path.home().resolve()) or str(folder).startswith("~"):
        raise DataError(f"--output {folder} is not a folder for a dataset", hint="name a new folder")
    if isinstance(source, LocalSource):
        is_in_input = source.is_folder and resolved.is_relative_to(source.root)
        if is_in_input or source.root.is_relative_to(resolved):
            raise DataError(f"--output {folder} and the input {source.root} overlap", hint="keep them apart")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.write_bytes(b"slipway")
        probe.unlink()
    except OSError as error:
        raise DataError(
            f"cannot write to --output {folder}: {error.strerror}", hint="name another folder"
        ) from error


def _claim(folder: Path, plan: RowPlan) -> None:
    path = folder / PLAN
    if path.exists():
        refuse_newer(read_json(path), path)
    claim(folder, path, asdict(plan), "a dataset")


@contextmanager
def lone_writer(folder: Path, array_index: int) -> Iterator[None]:
    """Refuse a second run with the same share: they would remove each other's unfinished files. A killed
    run holds nothing."""
    with (folder / f".lock-{array_index}").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(
                f"another preparation is writing to {folder}", hint="wait for it, or stop it"
            ) from None
        except OSError:  # a file system without locks: nothing to hold on to
            pass
        yield
