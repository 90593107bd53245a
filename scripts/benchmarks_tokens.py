"""Measure the tokenisation for decoders against two libraries that only encode.

Needs the extra training: scripts/bench tokens. Ours is the CPU time of the whole process, from JSON lines to
.bin and .idx. LIBRARY calls gigatoken as Megatron-LM's preprocess_data_fast.py does, and writes the ids,
without that script's imports of torch and transformers. All take turns on one core.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.benchmark_rows import (
    ONE_CORE,
    ROOT,
    Row,
    cpu_and_memory,
    cpu_seconds,
    medians,
    output_of,
    repeat,
    take_turns,
)
from slipway.containers.runtime.contract import variables

MEGABYTES = 24
LONG_MEGABYTES = 480
WORDS = 100_000
LEARNED_DOCUMENTS = 4000
ENTRIES = 50_257
LIBRARIES = {  # in the order of their turns, with the goal of each ratio
    "gigatoken's encode_files, a process": "ratio at least 1",
    "gigatoken's calls alone": "",
    "tokenizers' call alone": "ratio at least 5",
}
RECIPE = "slipway.containers.recipes.prepare_tokens.train"
TRAIN = """
import json, sys
from itertools import islice
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
trainer = trainers.BpeTrainer(vocab_size=int(sys.argv[3]), special_tokens=["<|endoftext|>"],
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
lines = islice(open(sys.argv[1]), int(sys.argv[4]))
tokenizer.train_from_iterator((json.loads(line)["text"] for line in lines), trainer)
tokenizer.save(sys.argv[2])
"""
# Measure only the call, without imports and reading.
GIGATOKEN = """
import json, sys, time
from gigatoken import Tokenizer
tokenizer = Tokenizer.from_json(open(sys.argv[2], "rb").read())
texts = [json.loads(line)["text"] for line in open(sys.argv[1])]
start = time.process_time()
for text in texts: tokenizer.encode(text)
print(time.process_time() - start)
"""
TOKENIZERS = """
import json, sys, time
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[2])
texts = [json.loads(line)["text"] for line in open(sys.argv[1])]
start = time.process_time()
tokenizer.encode_batch_fast(texts, add_special_tokens=False)
print(time.process_time() - start)
"""
LIBRARY = """
import sys
import awkward, gigatoken, numpy
tokenizer = gigatoken.Tokenizer(sys.argv[2])
found = tokenizer.encode_files(gigatoken.JsonlFileSource([sys.argv[1]]), parallel=False)
lengths = numpy.asarray(awkward.num(found, axis=1))
ids = numpy.insert(numpy.asarray(awkward.flatten(found)), numpy.cumsum(lengths), 0).astype(numpy.uint16)
open(sys.argv[3], "wb").write(ids.tobytes())
"""


@dataclass(frozen=True, slots=True)
class TokenBench:
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **ONE_CORE, variables.DATA: str(self.folder), "PYTHONPATH": str(ROOT)}

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def prepare(self, text: str, *more: str) -> list[str]:
        output = Path(tempfile.mkdtemp(dir=self.folder, prefix="made-")).name
        settings = (f"input={text}", f"output={output}", *more)
        return [sys.executable, "-m", RECIPE, *(part for each in settings for part in ("--set", each))]

    def library(self) -> list[str]:
        return self._script(LIBRARY, self.path("ids"))

    def call(self, script: str) -> float:
        return float(output_of(self._script(script), self.environment))

    def _script(self, script: str, *more: str) -> list[str]:
        return [sys.executable, "-c", script, self.path("text.jsonl"), self.path("tokenizer.json"), *more]


def tokens() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        bench = TokenBench(Path(folder))
        write_inputs(bench)
        yield from beside_libraries(bench)
        yield long_text(bench)


def write_inputs(bench: TokenBench) -> None:
    from slipway.containers.data.samples.texts import Author

    author, written = Author(1, WORDS), 0
    with Path(bench.path("text.jsonl")).open("w", encoding="utf-8") as file:
        while written < MEGABYTES * 1_000_000:
            written += file.write(json.dumps({"text": author.document()}) + "\n")
    command = [sys.executable, "-c", TRAIN, bench.path("text.jsonl"), bench.path("tokenizer.json")]
    subprocess.run([*command, str(ENTRIES), str(LEARNED_DOCUMENTS)], env=bench.environment, check=True)


def beside_libraries(bench: TokenBench) -> list[Row]:
    whole, *theirs = medians(
        take_turns(
            lambda: cpu_seconds(bench.prepare("text.jsonl"), bench.environment),
            lambda: cpu_seconds(bench.library(), bench.environment),
            lambda: bench.call(GIGATOKEN),
            lambda: bench.call(TOKENIZERS),
        )
    )
    return [
        Row(
            what="JSON lines to .bin and .idx, one core",
            measured=f"{MEGABYTES / whole:.1f} MB/s CPU",
            beside=f"{name} {MEGABYTES / seconds:.1f} MB/s",
            ratio=f"ratio {seconds / whole:.2f}",
            goal=goal,
        )
        for (name, goal), seconds in zip(LIBRARIES.items(), theirs, strict=True)
    ]


def long_text(bench: TokenBench) -> Row:
    """Measure the rate and the peak memory of one process for a large text."""
    text = Path(bench.path("text.jsonl")).read_bytes()
    repeat(text, LONG_MEGABYTES // MEGABYTES, Path(bench.path("long.jsonl")))
    seconds, megabytes = cpu_and_memory(bench.prepare("long.jsonl", "parts=1"), bench.environment)
    return Row(
        what=f"{LONG_MEGABYTES} MB of it in one part",
        measured=f"{LONG_MEGABYTES / seconds:.1f} MB/s CPU",
        beside=f"{megabytes:.0f} MB peak",
        goal="under 1000 MB",
    )
