"""Prepare a dataset: plan, make the shards that are missing or damaged, and write the manifest last.

Programs call `prepare`; its command line is prepare_bert. `merge` writes the manifest of what an array made.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.data.preparation import claim, make_parts
from slipway.containers.data.rows.shards import (
    PLAN,
    DatasetManifest,
    ShardRecord,
    as_json,
    check_shards,
    chunk_rows,
    plan_of,
    read_plan,
    record_path,
    refuse_newer,
)
from slipway.containers.data.rows.work import ShardWork, is_whole
from slipway.containers.data.sources.pieces import MOST_SHARDS, plan_shards, shards_for
from slipway.containers.data.sources.sources import NAME as ORIGIN
from slipway.containers.data.sources.sources import (
    LocalSource,
    Source,
    origin_of,
    read_origin,
    write_origin,
)
from slipway.containers.data.text.documents import decoded, read_json, write_json
from slipway.containers.data.tokens.compiled import library
from slipway.containers.data.tokens.engine import TokenSettings, write_vocabulary

MOST_WORKERS = 1024
VOCABULARY = "vocab.txt"  # beside the shards, for the model that is trained on them


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Say how the work is spread; the rows are the same for any share."""

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
    """Make this share of the shards; return the manifest, or None for an array, which `merge` completes."""
    shards = shards_for(source) if shards is None else shards
    if not 1 <= shards <= MOST_SHARDS:
        raise DataError(f"--shards is {shards}", hint=f"give a number from 1 to {MOST_SHARDS}")
    check_output(folder, source)
    plan = plan_of(settings, source, shards)
    with lone_writer(folder, share.array_index):
        path = folder / PLAN
        if path.exists():
            refuse_newer(read_json(path), path)
        claim(folder, path, asdict(plan), "a dataset")
        if share.array_index == 0 or not (folder / ORIGIN).exists():
            write_origin(folder, source)
        if share.array_index == 0 or not (folder / VOCABULARY).exists():
            unfinished = folder / f".{VOCABULARY}-{share.array_index}"
            write_vocabulary(settings.vocabulary, unfinished)
            unfinished.replace(folder / VOCABULARY)
        work = ShardWork(
            source=source,
            settings=settings,
            folder=folder,
            plan=plan,
            shards=tuple(map(tuple, plan_shards(source, shards))),
            input_version=origin_of(source).version,
        )
        numbers = range(share.array_index, shards, share.array_size)
        library()  # compile the C core before workers start, so that a failure is reported once
        make_parts(work, numbers, share.workers, "prepare_bert")
        return merge(folder) if share.array_size == 1 else None


def check_output(folder: Path, source: Source) -> None:
    resolved = folder.resolve()
    if resolved in (Path("/"), Path.home().resolve()) or str(folder).startswith("~"):
        raise DataError(f"--output {folder} is not a folder for a dataset", hint="name a new folder")
    if isinstance(source, LocalSource):
        is_in_input = source.is_folder and resolved.is_relative_to(source.root)
        if is_in_input or source.root.is_relative_to(resolved):
            raise DataError(
                f"--output {folder} and the input {source.root} overlap", hint="name another folder"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.write_bytes(b"slipway")
        probe.unlink()
    except OSError as error:
        raise DataError(
            f"cannot write to --output {folder}: {error.strerror}", hint="name another folder"
        ) from error


@contextmanager
def lone_writer(folder: Path, array_index: int) -> Iterator[None]:
    """Refuse a second run with the same share, which would remove unfinished files of the first.

    A killed run does not hold the lock.
    """
    with (folder / f".lock-{array_index}").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(
                f"another preparation is writing to {folder}", hint="wait for it, or stop it"
            ) from None
        except OSError:  # the file system has no locks
            pass
        yield


# The last step writes the manifest of a dataset that has all its shards, which makes it readable.
# After an array of nodes has prepared its shares into one folder:
# python -m slipway.containers.data.rows.prepare --output FOLDER
MOST_NAMED = 12


def merge(folder: Path, with_digests: bool = False) -> DatasetManifest:
    plan = read_plan(folder)
    records = [_record(folder, number) for number in range(plan.shards)]
    missing = [
        number
        for number, record in enumerate(records)
        if record is None or not is_whole(folder, record, with_digest=with_digests)
    ]
    if missing:
        raise DataError(
            f"{len(missing)} of {plan.shards} shards of {folder} are missing or damaged: {_named(missing)}",
            hint="run the same preparation again; only these are made again",
        )
    found = [record for record in records if record is not None]
    origin = read_origin(folder)
    others = [record.number for record in found if record.input_version != origin.version]
    if others:
        raise DataError(
            f"{len(others)} shards of {folder} are made from another version of "
            f"{origin.location or 'the input'}: {_named(others)}",
            hint="run the same preparation again; only shards that differ are made again",
        )
    shards = tuple(record for record in found if record.rows)
    manifest = DatasetManifest(
        plan=plan, origin=origin, chunk_rows=chunk_rows(plan.row_tokens), shards=shards
    )
    check_shards(manifest, folder)
    if not manifest.rows:
        raise DataError(
            f"the text makes no examples in {plan.shards} shards: they need a document of two sentences",
            hint="give more text, and an empty line between documents",
        )
    write_json(folder / "manifest.json", as_json(manifest))
    return manifest


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m slipway.containers.data.rows.prepare", description=__doc__
    )
    parser.add_argument("--output", type=Path, required=True, help="the folder that all nodes prepared into")
    parser.add_argument("--verify", action="store_true", help="read every shard and compare its digest")
    options = parser.parse_args(arguments)
    try:
        manifest = merge(options.output, with_digests=options.verify)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{options.output}/manifest.json: {manifest.rows} rows in {len(manifest.shards)} shards")
    return 0


def _record(folder: Path, number: int) -> ShardRecord | None:
    path = record_path(folder, number)
    if not path.exists():
        return None
    record = decoded(ShardRecord, read_json(path), folder)
    if record.number != number:
        raise DataError(
            f"{path} is the record of another shard, {record.number}", hint="remove it and prepare again"
        )
    return record


def _named(numbers: list[int]) -> str:
    more = f" and {len(numbers) - MOST_NAMED} more" if len(numbers) > MOST_NAMED else ""
    return ", ".join(map(str, numbers[:MOST_NAMED])) + more


if __name__ == "__main__":
    sys.exit(main())
