"""Prepares a corpus on many nodes: each rank makes its share of the shards, the first one merges.

Shards that are whole are kept, so a repeated job makes only what is lost.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from containers.data.documents import decoded, read_json
from containers.data.errors import DataError
from containers.data.manifest import Plan, ShardRecord, record_path
from containers.data.merge import merge
from containers.data.prepare import Share, prepare
from containers.data.sample import write_sample
from containers.data.settings import Settings
from containers.data.sources import local_source
from containers.data.train_vocabulary import train
from containers.data.vocabulary import Vocabulary, read_vocabulary, write_vocabulary
from containers.data.work import is_whole
from containers.recipes.prepare_bert.config import PrepareConfig, decode_arguments
from containers.runtime.contract import LaunchContract
from containers.runtime.disk import folder_within
from containers.runtime.errors import MISTAKE_EXIT_CODE, Refusal
from containers.runtime.platforms import read_contract

TRAINED_ENTRIES = 4096
POLL_SECONDS = 0.2
PATIENCE_SECONDS = 24 * 3600.0  # the launcher ends the job long before, when another node is gone


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m containers.recipes.prepare_bert.prepare", description=__doc__
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    options = parser.parse_args(arguments)
    try:
        prepare_share(decode_arguments(options.settings), read_contract(os.environ))
    except (Refusal, DataError) as error:
        print(f"error: {error}", file=sys.stderr)
        return getattr(error, "exit_code", MISTAKE_EXIT_CODE)
    return 0


def prepare_share(config: PrepareConfig, contract: LaunchContract) -> None:
    if contract.data is None:
        raise Refusal(
            "there is no data folder", hint="submit with --data, or to a cluster with a file system"
        )
    root = Path(contract.data)
    root.mkdir(parents=True, exist_ok=True)
    text = folder_within(str(root), *config.input.split("/"))
    if config.sample_megabytes:
        _once(
            contract, text, lambda path: write_sample(path, config.seed, config.sample_megabytes * 1_000_000)
        )
    settings = Settings(
        phase=config.phase,
        vocabulary=_vocabulary(config, contract, root, text),
        seed=config.seed,
        duplicates=config.duplicates,
    )
    output = folder_within(str(root), *(config.output or f"phase{config.phase}").split("/"))
    workers = max(1, (os.cpu_count() or 1) // contract.local_world)
    share = Share(workers=workers, array_index=contract.rank, array_size=contract.world)
    if contract.rank:  # the first claims the folder for all; two at once would take each other for strangers
        _wait((output / "plan.json").exists, f"rank 0 has not claimed {output}")
    prepare(local_source(text), settings, output, share, config.shards)
    if contract.rank == 0:
        merge_when_all_are_made(output)


def _vocabulary(config: PrepareConfig, contract: LaunchContract, root: Path, text: Path) -> Vocabulary:
    if config.vocabulary is not None:
        return read_vocabulary(folder_within(str(root), *config.vocabulary.split("/")))
    trained = text.with_name(f"{text.name}.vocab.txt")
    _once(contract, trained, lambda path: write_vocabulary(train(local_source(text), TRAINED_ENTRIES), path))
    return read_vocabulary(trained)


def _once(contract: LaunchContract, path: Path, write: Callable[[Path], None]) -> None:
    """The first rank writes it, whole or not at all; the others wait for it."""
    if contract.rank == 0 and not path.exists():
        unfinished = path.with_name(f".{path.name}-{contract.attempt}")
        write(unfinished)
        unfinished.replace(path)
    _wait(path.exists, f"rank 0 has not written {path}")


def merge_when_all_are_made(output: Path) -> None:
    shards = decoded(Plan, read_json(output / "plan.json"), output).shards
    _wait(
        lambda: all(_is_made(output, number) for number in range(shards)), f"shards of {output} are missing"
    )
    manifest = merge(output)
    print(f"{output}/manifest.json: {manifest.rows} rows in {len(manifest.shards)} shards", flush=True)


def _is_made(output: Path, number: int) -> bool:
    """The record of a shard that was lost since is still there: the file itself counts."""
    path = record_path(output, number)
    if not path.exists():
        return False
    return is_whole(output, decoded(ShardRecord, read_json(path), output), with_digest=False)


def _wait(is_so: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise Refusal(complaint, hint="look at the other ranks' logs")
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
