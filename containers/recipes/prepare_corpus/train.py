"""Run one rank of the preparation: python -m slipway.containers.recipes.prepare_corpus.train --set input=dump

Nothing is trained here: `train` is the name of every recipe's entry point.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial

from slipway.containers.data.corpus.parts import parts_of
from slipway.containers.data.corpus.work import (
    CorpusWork,
    PartRecord,
    finished_part,
    most_frequent,
    words_path,
)
from slipway.containers.data.errors import DataError
from slipway.containers.data.preparation import claim, make_parts, plan_path
from slipway.containers.data.rows.train_vocabulary import vocabulary_of
from slipway.containers.data.shared_folder import (
    data_folder,
    source_at,
    wait_for_all,
    wait_for_claim,
    within,
    workers_of,
)
from slipway.containers.data.tokens.engine import write_vocabulary
from slipway.containers.recipes.prepare_corpus.config import MODULE, NAME, CorpusConfig, decode_arguments
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.rank import run_rank

# Each rank makes its parts of the corpus, and rank 0 trains a vocabulary. Whole parts are kept, so a repeated
# job, or its next attempt, makes only the missing parts.


def prepare_share(config: CorpusConfig, contract: LaunchContract, _stack: ExitStack) -> None:
    """Make this rank's share of the parts; the first rank then waits for all."""
    root = data_folder(contract)
    source, folder = source_at(config.input, root, contract), within(root, config.output)
    work = CorpusWork(
        source=source,
        folder=folder,
        parts=tuple(parts_of(source, config.parts)),
        field=config.field,
        counts_words=config.vocabulary_entries > 0,
        cased=config.cased == "yes",
    )
    if contract.rank == 0:
        claim(folder, plan_path(folder), work.plan, "a corpus")
    wait_for_claim(folder, plan_path(folder))
    numbers = range(contract.rank, len(work.parts), contract.world)
    make_parts(work, numbers, workers_of(contract), NAME)
    if contract.rank == 0:
        _finish(config, work)


def _finish(config: CorpusConfig, work: CorpusWork) -> None:
    every, records = range(len(work.parts)), list[PartRecord]()

    def is_made(number: int) -> bool:
        record = finished_part(work, number)
        records.extend([record] if record else [])
        return record is not None

    wait_for_all(every, is_made, f"parts of {work.folder} are missing")
    documents, others = sum(record.documents for record in records), sum(record.others for record in records)
    size = sum(record.bytes for record in records)
    made = f"{documents} documents, {size / 1e6:.1f} MB in {len(records)} parts"
    print(f"{work.folder}: {made}; {others} pages hold no passage", flush=True)
    if not documents:
        raise DataError(
            f"the {len(work.parts)} parts of the input hold no documents",
            hint=f"look at its files, and whether their text is in the field '{config.field}'",
        )
    if config.vocabulary_entries:
        counts = most_frequent(words_path(work.folder, number) for number in every)
        path = work.folder.with_name(f"{work.folder.name}.vocab.txt")
        vocabulary = vocabulary_of(counts, config.vocabulary_entries)
        unfinished = path.with_name(f".{path.name}")
        write_vocabulary(vocabulary, unfinished)
        unfinished.replace(path)
        print(f"{path}: {len(vocabulary.entries)} entries", flush=True)


main = partial(run_rank, MODULE, decode_arguments, prepare_share, description=__doc__)

if __name__ == "__main__":
    sys.exit(main())
