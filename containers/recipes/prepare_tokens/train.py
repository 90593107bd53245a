"""Run one rank: python -m slipway.containers.recipes.prepare_tokens.train --set input=text.jsonl

Nothing is trained here: `train` is the name of every recipe's entry point.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from slipway.containers.data.corpus.parts import parts_of
from slipway.containers.data.megatron.engines import (
    MOST_BYTES,
    BpeVocabulary,
    best_engine,
    find_bpe_vocabulary,
    read_bpe_vocabulary,
)
from slipway.containers.data.megatron.work import (
    TOKENS,
    VOCABULARY,
    TokenWork,
    begin_tokens,
    is_made,
    merge_tokens,
    merged_tokens,
    records_of,
)
from slipway.containers.data.preparation import make_parts, plan_path
from slipway.containers.data.shared_folder import (
    data_folder,
    source_at,
    wait_for_all,
    wait_for_claim,
    wait_until,
    within,
    workers_of,
)
from slipway.containers.data.sources.locations import is_remote, open_source, public
from slipway.containers.data.sources.sources import read_whole
from slipway.containers.recipes.prepare_tokens.config import (
    MODULE,
    NAME,
    NO_END,
    TokensConfig,
    decode_arguments,
)
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.rank import run_rank

# Makes tokens on many nodes: each rank makes its parts, and the one that ends last merges them. Parts that
# are whole are kept, so that a repeated job, or the next attempt of one, makes only what is missing.


def prepare_share(config: TokensConfig, contract: LaunchContract, _stack: ExitStack) -> None:
    """Make this rank's share of the parts; rank 0 then waits for those of the job, and may merge."""
    root = data_folder(contract)
    vocabulary = _vocabulary(config.vocabulary, root, contract)
    work = _work(config, vocabulary, root, contract)
    if contract.rank == 0:
        begin_tokens(work, vocabulary.json)
    wait_for_claim(work.folder, plan_path(work.folder))
    wait_until((work.folder / VOCABULARY).exists, f"rank 0 has not written {work.folder}")
    if (merged := merged_tokens(work)) is not None:
        _say(contract, f"{_summary(work.folder, merged)}; made before")
        return
    index, size = config.array
    job = range(index, len(work.parts), size)
    numbers = job[contract.rank :: contract.world]
    make_parts(work, numbers, workers_of(contract), NAME)
    if contract.rank:
        return
    wait_for_all(job, partial(is_made, work), f"parts of {work.folder} are missing")
    manifest = merge_tokens(work)
    if manifest is None:
        made = len(records_of(work, range(len(work.parts))))
        print(f"{work.folder}: {made} of {len(work.parts)} parts are made; the array's last job merges them")
    else:
        print(_summary(work.folder, manifest), flush=True)


def _work(config: TokensConfig, vocabulary: BpeVocabulary, root: Path, contract: LaunchContract) -> TokenWork:
    source = source_at(config.input, root, contract)
    end = None if config.end_of_document == NO_END else vocabulary.id_of(config.end_of_document)
    engine, why_not_faster = best_engine(vocabulary)
    if why_not_faster:
        _say(contract, f"{why_not_faster}; {engine} makes the same tokens many times slower")
    return TokenWork(
        source=source,
        folder=within(root, config.output),
        parts=tuple(parts_of(source, config.parts)),
        field=config.field,
        vocabulary=vocabulary.digest,
        vocabulary_size=vocabulary.size,
        end_of_document=end,
        engine=engine,
    )


def _vocabulary(place: str, root: Path, contract: LaunchContract) -> BpeVocabulary:
    if not is_remote(place):
        return read_bpe_vocabulary(within(root, place))
    there = open_source(place, bucket_owner=contract.account)
    sizes = {file.name: file.size_bytes for file in there.files}

    def read(name: str) -> bytes:
        if sizes[name] > MOST_BYTES:
            raise Refusal(
                f"vocabulary is {public(place)}, and {name} has {sizes[name]:,} bytes",
                hint=f"name a tokenizer.json of at most {MOST_BYTES >> 20} MiB",
            )
        return read_whole(there, name)

    return find_bpe_vocabulary(public(place), sizes, read)


def _summary(folder: Path, manifest: Mapping[str, object]) -> str:
    empty = f"; {manifest['empty_documents']} documents are empty" if manifest["empty_documents"] else ""
    made = f"{manifest['documents']} documents, {manifest['tokens']} tokens of {manifest['type']}"
    return f"{folder / TOKENS}.bin and .idx: {made}{empty}"


def _say(contract: LaunchContract, line: str) -> None:
    if contract.rank == 0:
        print(f"{NAME}: {line}", flush=True)


main = partial(run_rank, MODULE, decode_arguments, prepare_share, description=__doc__)

if __name__ == "__main__":
    sys.exit(main())
