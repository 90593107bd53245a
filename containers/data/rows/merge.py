"""Write the manifest of a dataset whose shards are all there: the last step, which makes it readable.

After an array of nodes prepared its shares into one folder:
python -m slipway.containers.data.rows.merge --output FOLDER
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows.manifest import (
    DatasetManifest,
    ShardRecord,
    as_json,
    check_shards,
    read_plan,
    record_path,
)
from slipway.containers.data.rows.shards import chunk_rows
from slipway.containers.data.rows.work import is_whole
from slipway.containers.data.sources.origin import InputOrigin, read_origin
from slipway.containers.data.text.documents import decoded, read_json, write_json

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
            hint="run the same preparation again; only these are made",
        )
    found = [record for record in records if record is not None]
    origin = read_origin(folder)
    _refuse_other_versions(folder, found, origin)
    shards = tuple(record for record in found if record.rows)
    manifest = DatasetManifest(
        plan=plan, origin=origin, chunk_rows=chunk_rows(plan.row_tokens), shards=shards
    )
    check_shards(manifest, folder)
    if not manifest.rows:
        raise DataError("the text makes no examples: it has no two sentences", hint="give more text")
    write_json(folder / "manifest.json", as_json(manifest))
    return manifest


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m slipway.containers.data.rows.merge", description=__doc__)
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


def _refuse_other_versions(folder: Path, records: Sequence[ShardRecord], origin: InputOrigin) -> None:
    others = [record.number for record in records if record.input_version != origin.version]
    if others:
        raise DataError(
            f"{len(others)} shards of {folder} are made from another version of "
            f"{origin.location or 'the input'}: {_named(others)}",
            hint="run the same preparation again; only what differs is made",
        )


def _record(folder: Path, number: int) -> ShardRecord | None:
    path = record_path(folder, number)
    if not path.exists():
        return None
    record = decoded(ShardRecord, read_json(path), folder)
    if record.number != number:
        raise DataError(f"{path} is the record of shard {record.number}", hint="remove it and prepare again")
    return record


def _named(numbers: list[int]) -> str:
    more = f" and {len(numbers) - MOST_NAMED} more" if len(numbers) > MOST_NAMED else ""
    return ", ".join(map(str, numbers[:MOST_NAMED])) + more


if __name__ == "__main__":
    sys.exit(main())
