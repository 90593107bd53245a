"""Write sample data for demos and tests: a corpus of made-up words, a GLUE task of them, or a tiny model.

python -m slipway.containers.data.samples --output corpus.txt --megabytes 2 --seed 1
python -m slipway.containers.data.samples --task mrpc --output glue/mrpc      (train.tsv and dev.tsv)
python -m slipway.containers.data.samples --model distilbert --output tiny    (a model that fits them)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.data.samples.model_sample import write_model
from slipway.containers.data.samples.texts import write_sample, write_task


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m slipway.containers.data.samples",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--megabytes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--task", help="a folder with train.tsv and dev.tsv: mrpc or sst2")
    kind.add_argument("--model", help="a folder with a tiny model for them: bert or distilbert")
    options = parser.parse_args(arguments)
    try:
        if options.task:
            write_task(options.output, options.task, seed=options.seed)
        elif options.model:
            write_model(options.output, options.model, seed=options.seed)
        else:
            write_sample(options.output, options.seed, int(options.megabytes * 1e6))
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
