"""Prepares a corpus on many nodes: each rank makes its share of the shards, the first one merges.

Shards that are whole are kept, so a repeated job makes only what is lost. That is why it is one multi-node
job and no array: its first rank merges, its launcher ends an attempt that lost a node, and the next one makes
the rest.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from slipway.containers.data.rows.manifest import ShardRecord, read_plan, record_path
from slipway.containers.data.rows.merge import merge
from slipway.containers.data.rows.prepare import Share, prepare
from slipway.containers.data.rows.train_vocabulary import train
from slipway.containers.data.rows.work import is_whole
from slipway.containers.data.samples.corpus import write_sample
from slipway.containers.data.sources.ahead import read_whole
from slipway.containers.data.sources.inputs import open_source
from slipway.containers.data.sources.locations import is_remote, public
from slipway.containers.data.sources.origin import InputOrigin, origin_of, read_origin
from slipway.containers.data.sources.sources import Source, local_source
from slipway.containers.data.text.documents import decoded, read_json
from slipway.containers.data.tokens.settings import TokenSettings
from slipway.containers.data.tokens.vocabulary import (
    MOST_BYTES,
    Vocabulary,
    parse_vocabulary,
    read_vocabulary,
    write_vocabulary,
)
from slipway.containers.recipes.prepare_bert.config import PrepareConfig
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.disk import folder_within
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

TRAINED_ENTRIES = 4096
CLAIM_SECONDS = 300.0  # for listing what all ranks list
POLL_SECONDS = 0.2
PATIENCE_SECONDS = 24 * 3600.0  # the launcher ends the job long before, when another node is gone


def prepare_share(config: PrepareConfig, contract: LaunchContract) -> None:
    """Make this rank's share of the shards; the first rank then merges them."""
    root = _data_folder(contract)
    if config.sample_megabytes:
        text = folder_within(str(root), *config.input.split("/"))
        _once(
            contract, text, lambda path: write_sample(path, config.seed, config.sample_megabytes * 1_000_000)
        )
    source = _source(config, contract, root)
    settings = TokenSettings(
        phase=config.phase,
        vocabulary=_vocabulary(config, contract, root, source),
        seed=config.seed,
        duplicates=config.duplicates,
    )
    output = folder_within(str(root), *(config.output or f"phase{config.phase}").split("/"))
    workers = max(1, (os.cpu_count() or 1) // contract.local_world)
    share = Share(workers=workers, array_index=contract.rank, array_size=contract.world)
    if contract.rank:  # the first claims the folder for all; two at once would take each other for strangers
        _wait_for_claim(output, origin_of(source))
    prepare(source, settings, output, share, config.shards)
    if contract.rank == 0:
        merge_when_all_are_made(output, origin_of(source))


def _data_folder(contract: LaunchContract) -> Path:
    if contract.data is None:
        raise Refusal(
            "there is no data folder", hint="submit with --data, or to a cluster with a file system"
        )
    if is_remote(contract.data):
        raise Refusal(
            f"the data folder is {shown(public(contract.data))}, and rows are written to files",
            hint="give the text by --set input=s3://…, and a path to --data",
        )
    root = Path(contract.data)
    root.mkdir(parents=True, exist_ok=True)
    return root


def _source(config: PrepareConfig, contract: LaunchContract, root: Path) -> Source:
    if is_remote(config.input):
        return open_source(config.input, bucket_owner=contract.account)
    return local_source(folder_within(str(root), *config.input.split("/")))


def _vocabulary(config: PrepareConfig, contract: LaunchContract, root: Path, source: Source) -> Vocabulary:
    if config.vocabulary is not None and is_remote(config.vocabulary):
        there = open_source(config.vocabulary, bucket_owner=contract.account)
        return parse_vocabulary(public(config.vocabulary), _only_file(there, config.vocabulary))
    if config.vocabulary is not None:
        return read_vocabulary(folder_within(str(root), *config.vocabulary.split("/")))
    trained = folder_within(str(root), *f"{_named(config.input)}.vocab.txt".split("/"))
    _once(contract, trained, lambda path: write_vocabulary(train(source, TRAINED_ENTRIES), path))
    return read_vocabulary(trained)


def _only_file(source: Source, place: str) -> bytes:
    """Return the content of the one file that was named."""
    sizes = [file.size_bytes for file in source.files]
    if len(sizes) != 1 or sizes[0] > MOST_BYTES:
        raise Refusal(
            f"vocabulary is {shown(public(place))}, which is {len(sizes)} files of {sum(sizes):,} bytes",
            hint=f"name one vocab.txt of at most {MOST_BYTES >> 20} MiB",
        )
    return read_whole(source, source.files[0].name)


def _named(text: str) -> str:
    """Return a file name for text from elsewhere: two buckets may have prefixes of one name."""
    if not is_remote(text):
        return text
    last = re.sub(r"[^A-Za-z0-9._-]", "-", text.rstrip("/").rpartition("/")[2])
    return f"{last[:64]}-{sha256(text.encode()).hexdigest()[:8]}"


def _once(contract: LaunchContract, path: Path, write: Callable[[Path], None]) -> None:
    """Write a file atomically on the first rank; the others wait for it."""
    if contract.rank == 0 and not path.exists():
        unfinished = path.with_name(f".{path.name}-{contract.attempt}")
        write(unfinished)
        unfinished.replace(path)
    _wait(path.exists, f"rank 0 has not written {path}")


def _wait_for_claim(output: Path, origin: InputOrigin) -> None:
    """Wait until the first rank sees the same objects as this one; an earlier job may have seen others."""
    _wait((output / "plan.json").exists, f"rank 0 has not claimed {output}")
    _wait(
        lambda: read_origin(output) == origin,
        f"rank 0 sees another version of {origin.location or 'the input'}: it changed while the job started",
        CLAIM_SECONDS,
    )


def merge_when_all_are_made(output: Path, origin: InputOrigin) -> None:
    """Wait until every shard is made, then write the manifest."""
    shards = read_plan(output).shards
    _wait(
        lambda: all(_is_made(output, number, origin) for number in range(shards)),
        f"shards of {output} are missing",
    )
    manifest = merge(output)
    print(f"{output}/manifest.json: {manifest.rows} rows in {len(manifest.shards)} shards", flush=True)


def _is_made(output: Path, number: int, origin: InputOrigin) -> bool:
    """Return True if the shard itself is there: its record may outlive it."""
    path = record_path(output, number)
    if not path.exists():
        return False
    record = decoded(ShardRecord, read_json(path), output)
    return record.input_version == origin.version and is_whole(output, record, with_digest=False)


def _wait(is_so: Callable[[], bool], complaint: str, seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise Refusal(complaint, hint="look at the other ranks' logs")
        time.sleep(POLL_SECONDS)
