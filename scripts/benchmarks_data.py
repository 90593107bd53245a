"""Measure data preparation against the tokenizers library, which only tokenises.

Needs the data extra and tokenizers: scripts/bench data. Ours is the CPU time of the whole
process, from text to HDF5; theirs is that of encode_batch alone, held to one core. The two take turns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from scripts.benchmark_rows import (
    ONE_CORE,
    ROOT,
    Row,
    cpu_seconds,
    medians,
    output_of,
    repeat,
    take_turns,
    wall,
)

MEGABYTES = 24
WORDS = 100_000  # as many different words as real text of this size has: rare words cost most
VOCABULARY_MEGABYTES = 4
ENTRIES = 30_000
PAIR_MEGABYTES = 192  # for two workers: long enough that their start-up does not matter
GOALS = {1: 10.0, 5: 6.0}
ENCODE = """
import sys, time
from pathlib import Path
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
entries = Path(sys.argv[2]).read_text().splitlines()
tokenizer = Tokenizer(models.WordPiece({entry: n for n, entry in enumerate(entries)}, unk_token="[UNK]"))
tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
lines = Path(sys.argv[1]).read_text().splitlines()
start = time.process_time()
tokenizer.encode_batch(lines, add_special_tokens=False)
print(time.process_time() - start)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    folder: Path
    environment: dict[str, str] = field(default_factory=lambda: {**os.environ, **ONE_CORE})

    @property
    def text(self) -> Path:
        return self.folder / "text.txt"

    @property
    def vocabulary(self) -> Path:
        return self.folder / "vocab.txt"

    def prepare(self, text: Path | str, *more: str) -> list[str]:
        output = tempfile.mkdtemp(dir=self.folder)
        start = [sys.executable, "-m", "slipway.containers.data.rows.prepare_bert", "--phase", "1"]
        files = ["--output", output, "--input", str(text), "--vocabulary", str(self.vocabulary)]
        return [*start, *files, *more]

    def encode(self) -> float:
        command = [sys.executable, "-c", ENCODE, str(self.text), str(self.vocabulary)]
        return float(output_of(command, self.environment))

    def wall(self, text: Path | str, *more: str) -> Callable[[], float]:
        return lambda: wall(self.prepare(text, *more), self.environment)


def data() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder=Path(folder))
        write_inputs(bench)
        subprocess.run(
            bench.prepare(bench.vocabulary), cwd=ROOT, capture_output=True, check=False
        )  # compiles
        yield from beside_tokenizers(bench)
        yield second_core(bench)


def write_inputs(bench: Bench) -> None:
    from slipway.containers.data.rows.train_vocabulary import train
    from slipway.containers.data.samples.texts import write_sample
    from slipway.containers.data.sources.sources import local_source
    from slipway.containers.data.tokens.engine import write_vocabulary

    beginning = bench.folder / "beginning.txt"
    write_sample(beginning, 1, VOCABULARY_MEGABYTES * 1_000_000, WORDS)
    write_vocabulary(train(local_source(beginning), ENTRIES), bench.vocabulary)
    write_sample(bench.text, 1, MEGABYTES * 1_000_000, WORDS)


def beside_tokenizers(bench: Bench) -> list[Row]:
    def prepare(duplicates: int) -> float:
        return cpu_seconds(bench.prepare(bench.text, "--duplicates", str(duplicates)), bench.environment)

    base, *ours = medians(take_turns(bench.encode, *(partial(prepare, duplicates) for duplicates in GOALS)))
    return [
        Row(
            what=f"text to HDF5, {duplicates} duplicates, one core",
            measured=f"{MEGABYTES / seconds:.1f} MB/s CPU",
            beside=f"tokenizers {MEGABYTES / base:.1f} MB/s",
            ratio=f"ratio {base / seconds:.1f}",
            goal=f"ratio at least {goal:.0f}",
        )
        for (duplicates, goal), seconds in zip(GOALS.items(), ours, strict=True)
    ]


def second_core(bench: Bench) -> Row:
    """Measure wall time, the only measure that a second worker can improve; it needs an idle machine."""
    long = bench.folder / "long.txt"
    repeat(bench.text.read_bytes(), PAIR_MEGABYTES // MEGABYTES, long)
    runs = (bench.wall(long, "--workers", workers, "--shards", "16") for workers in ("1", "2"))
    one, two = (min(kept) for kept in take_turns(*runs))  # the least disturbed run
    return Row(
        what="the same with two workers, 5 duplicates",
        measured=f"{PAIR_MEGABYTES / two:.1f} MB/s wall",
        beside=f"one worker {PAIR_MEGABYTES / one:.1f} MB/s",
        ratio=f"ratio {one / two:.2f}",
        goal="ratio at least 1.9",
    )
