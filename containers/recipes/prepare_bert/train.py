"""Run one rank of the preparation: python -m slipway.containers.recipes.prepare_bert.train --set input=text

Nothing is trained here: `train` is the name of every recipe's entry point.
"""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from pathlib import Path

from slipway.containers.data.rows.prepare import Share, merge, prepare
from slipway.containers.data.rows.shards import PLAN, ShardRecord, read_plan, record_path
from slipway.containers.data.rows.train_vocabulary import train
from slipway.containers.data.rows.work import is_whole
from slipway.containers.data.samples.texts import write_sample
from slipway.containers.data.shared_folder import (
    data_folder,
    source_at,
    vocabulary_at,
    wait_for_all,
    wait_for_claim,
    wait_until,
    within,
    workers_of,
    write_once,
)
from slipway.containers.data.sources.locations import is_remote
from slipway.containers.data.sources.sources import InputOrigin, Source, origin_of, read_origin
from slipway.containers.data.text.documents import decoded, read_json
from slipway.containers.data.tokens.engine import (
    TokenSettings,
    Vocabulary,
    read_vocabulary,
    write_vocabulary,
)
from slipway.containers.recipes.prepare_bert.config import MODULE, PrepareConfig, decode_arguments
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.rank import run_rank

# Each rank makes its share of the shards, and rank 0 merges them. Whole shards are kept, so a repeated job
# makes only the missing ones. It is one multi-node job and not an array, because rank 0 merges; the launcher
# ends an attempt that lost a node, and the next attempt makes the rest.
TRAINED_ENTRIES = 4096
CLAIM_SECONDS = 300.0  # for listing what all ranks list


def prepare_share(config: PrepareConfig, contract: LaunchContract, _stack: ExitStack) -> None:
    """Make this rank's share of the shards; the first rank then merges them."""
    root = data_folder(contract)
    if config.sample_megabytes:
        text = within(root, config.input)
        write_once(
            contract, text, lambda path: write_sample(path, config.seed, config.sample_megabytes * 1_000_000)
        )
    source = source_at(config.input, root, contract)
    settings = TokenSettings(
        phase=config.phase,
        vocabulary=_vocabulary(config, contract, root, source),
        seed=config.seed,
        duplicates=config.duplicates,
        cased=config.cased == "yes",
    )
    output = within(root, config.output or f"phase{config.phase}")
    share = Share(workers=workers_of(contract), array_index=contract.rank, array_size=contract.world)
    origin = origin_of(source)
    if contract.rank:  # the first claims the folder for all; two at once would take each other for strangers
        wait_for_claim(output, output / PLAN)
        # Until it sees the same objects as this one: an earlier job may have seen others.
        where = origin.location or "the input"
        changed = f"rank 0 sees another version of {where}: it changed while the job started"
        wait_until(lambda: read_origin(output) == origin, changed, CLAIM_SECONDS)
    prepare(source, settings, output, share, config.shards)
    if contract.rank == 0:
        merge_when_all_are_made(output, origin)


def _vocabulary(config: PrepareConfig, contract: LaunchContract, root: Path, source: Source) -> Vocabulary:
    if config.vocabulary is not None:
        return vocabulary_at(config.vocabulary, root, contract)
    name = config.input
    if is_remote(name):  # of text from elsewhere: two buckets may have prefixes of one name
        last = re.sub(r"[^A-Za-z0-9._-]", "-", name.rstrip("/").rpartition("/")[2])
        name = f"{last[:64]}-{sha256(name.encode()).hexdigest()[:8]}"
    trained = within(root, f"{name}.vocab.txt")
    is_cased = config.cased == "yes"
    write_once(
        contract, trained, lambda path: write_vocabulary(train(source, TRAINED_ENTRIES, cased=is_cased), path)
    )
    return read_vocabulary(trained)


def merge_when_all_are_made(output: Path, origin: InputOrigin) -> None:
    """Wait until every shard is made, then write the manifest."""

    def is_made(number: int) -> bool:
        """Return True if the shard's file exists; its record alone does not tell."""
        path = record_path(output, number)
        if not path.exists():
            return False
        record = decoded(ShardRecord, read_json(path), output)
        return record.input_version == origin.version and is_whole(output, record, with_digest=False)

    wait_for_all(range(read_plan(output).shards), is_made, f"shards of {output} are missing")
    manifest = merge(output)
    print(f"{output}/manifest.json: {manifest.rows} rows in {len(manifest.shards)} shards", flush=True)


main = partial(run_rank, MODULE, decode_arguments, prepare_share, description=__doc__)

if __name__ == "__main__":
    sys.exit(main())
