"""Prepare BERT's pre-training rows from text.

python -m slipway.containers.data.rows.prepare_bert --input TEXT --output FOLDER …

Run again after a failure with the same arguments: finished shards are kept.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows.prepare import Share, prepare
from slipway.containers.data.sources.locations import open_source
from slipway.containers.data.tokens.engine import PHASES, TokenSettings, read_vocabulary

DEFAULT_DUPLICATES = 5  # as in BERT's article and in its create_pretraining_data.py


def main(arguments: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, end)
    try:
        return run(options)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
    except MemoryError:
        print("error: memory ran out; give fewer --workers and run again", file=sys.stderr)
    except KeyboardInterrupt:
        print("prepare_bert: stopped; finished shards are kept", file=sys.stderr)
        return 130
    return 1


def run(options: argparse.Namespace) -> int:
    source = open_source(options.input, tuple(options.only), options.bucket_owner)
    settings = TokenSettings(
        phase=options.phase,
        vocabulary=read_vocabulary(options.vocabulary),
        seed=options.seed,
        duplicates=options.duplicates,
        has_sentence_per_line=options.sentence_per_line,
    )
    share = Share(workers=options.workers, array_index=options.array_index, array_size=options.array_size)
    manifest = prepare(source, settings, options.output, share, options.shards)
    if manifest:
        print(f"{options.output}/manifest.json: {manifest.rows} rows in {len(manifest.shards)} shards")
    else:
        print(
            f"share {share.array_index} of {share.array_size} is made; when all are, run "
            f"python -m slipway.containers.data.rows.prepare --output {options.output}"
        )
    return 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m slipway.containers.data.rows.prepare_bert", description=__doc__
    )
    add = parser.add_argument
    add(
        "--input",
        required=True,
        help="a text file or a folder of them, s3://bucket/prefix, or https://host/file",
    )
    add(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="only this file of the folder or prefix (repeatable)",
    )
    add("--bucket-owner", metavar="ACCOUNT", help="refuse a bucket that is not this AWS account's")
    add("--output", type=Path, required=True, help="a new folder, or that of an unfinished run")
    add("--vocabulary", type=Path, required=True, help="vocab.txt, one entry per line")
    add("--phase", type=int, choices=sorted(PHASES), required=True, help="1: rows of 128 tokens, 2: of 512")
    add(
        "--duplicates",
        type=int,
        default=DEFAULT_DUPLICATES,
        help="number of times each text is masked differently",
    )
    add("--seed", type=int, default=12345)
    add("--shards", type=int, default=None, help="files to make; by default one per 32 MB of text")
    add("--workers", type=int, default=1, help="processes; each takes about 150 MB")
    add("--array-index", type=int, default=0, help="which share of the shards this node makes")
    add("--array-size", type=int, default=1, help="how many nodes there are")
    add("--sentence-per-line", action="store_true", help="lines are sentences, not paragraphs")
    return parser


def end(number: int, frame: FrameType | None) -> None:
    """Treat SIGTERM like Ctrl-C, so that workers stop and unfinished files are removed."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
