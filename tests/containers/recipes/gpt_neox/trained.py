"""Tiny trainings of GPT-NeoX, each rank a fork of one process that has imported torch once.

python -m tests.containers.recipes.gpt_neox.trained FOLDER
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from slipway.containers.data.megatron.index import TokenWriter, index_path, tokens_path, write_index
from slipway.containers.recipes.gpt_neox import (
    model,  # noqa: F401 - imported once, for all ranks
    train,
)
from slipway.containers.training.engines.native import engine  # noqa: F401 - likewise

LENGTH, ROWS, STEPS, SAVED_AFTER = 16, 8, 6, 3
VOCABULARY = 128
BASE: Mapping[str, str] = {
    "data": "tokens",
    "precision": "fp32",
    "vocabulary": str(VOCABULARY),
    "length": str(LENGTH),
    "global_batch": str(ROWS),
    "micro_batch": "2",
    "tokens": str(STEPS * ROWS * LENGTH),
    "checkpoint_every": str(SAVED_AFTER),
}
CUT = {"tensor": "2", "pipeline": "2"}
EMPTY_CACHE, CACHE = "empty", "cache"


class Runs:
    """Run trainings one after the other below one folder, and keep what they said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.codes: dict[str, list[int]] = {}

    def run(self, name: str, world: int, changes: Mapping[str, str], cache: str = EMPTY_CACHE) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        settings = {**BASE, **changes}
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        children = []
        for rank in range(world):
            if (child := os.fork()) == 0:
                os.environ |= self._environment(name, rank, world, port, cache)
                self._be_rank(name, rank, words)
            children.append(child)
        self.codes[name] = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

    def continue_from(self, other: str, name: str) -> None:
        """Give a run the checkpoint that another left half-way."""
        shutil.copytree(self.folder / "checkpoints" / other, self.folder / "checkpoints" / name)
        shutil.rmtree(self.folder / "checkpoints" / name / f"step-{STEPS:010}")
        shutil.rmtree(self.folder / "checkpoints" / name / "model")

    def _be_rank(self, name: str, rank: int, words: list[str]) -> None:
        with (self.folder / f"{name}.{rank}.txt").open("w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            torch.set_num_threads(1)
            code = 1
            try:
                code = train.main(words)
            finally:
                sys.stdout.flush()
                os._exit(code)

    def _environment(self, name: str, rank: int, world: int, port: int, cache: str) -> dict[str, str]:
        told = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": world,
            "LOCAL_WORLD_SIZE": world,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "SLIPWAY_NODE": 0,
            "SLIPWAY_NODES": 1,
            "SLIPWAY_JOB": "test",
            "SLIPWAY_RUN": name,
            "SLIPWAY_ATTEMPT": 1,
            "SLIPWAY_DATA": self.folder / "data",
            "SLIPWAY_CHECKPOINTS": self.folder / "checkpoints" / name,
            "SLIPWAY_LOGS": self.folder / "logs" / name,
            "SLIPWAY_USD_PER_HOUR": 21.5,
            "NEURON_COMPILE_CACHE_URL": self.folder / cache,
        }
        return {key: str(value) for key, value in told.items()}


def write_tokens(folder: Path) -> None:
    """Write documents that count upwards, which a model learns fast."""
    folder.mkdir(parents=True)
    prefix, lengths = folder / "tokens", np.full(40, 50)
    starts = np.random.default_rng(0).integers(VOCABULARY, size=40)
    ids = ((starts[:, None] + np.arange(50)) % VOCABULARY).flatten().astype(np.uint16)
    with TokenWriter(tokens_path(prefix), np.uint16) as writer:
        writer.add(ids, lengths)
        written = writer.lengths
    write_index(index_path(prefix), np.uint16, [written])


def main(folder: Path) -> None:
    write_tokens(folder / "data")
    runs = Runs(folder)
    measured = {"held_out": "tokens", "evaluate_every": str(STEPS), "held_out_rows": str(ROWS)}
    runs.run("alone", 1, measured)
    runs.run("whole", 1, {"rotary": "whole"})
    runs.run("cut", 4, {**CUT, "micro_batch": "1"})
    runs.continue_from("alone", "resumed")
    runs.run("resumed", 4, {**CUT, "micro_batch": "1"})
    runs.continue_from("alone", "otherwise")
    runs.run("otherwise", 1, {"rotary": "whole"})
    shutil.copytree(folder / "checkpoints" / "alone" / "model", folder / "data" / "published")
    runs.run("from-published", 1, {"start_from_model": "published", "rotary": "whole", **measured})
    runs.run("compile", 1, {"steps": "2"}, CACHE)
    runs.run("differs", 1, {"micro_batch": "4"}, CACHE)
    runs.run("same", 1, {"rate": "1e-3"}, CACHE)
    runs.run("short-vocabulary", 1, {"vocabulary": "100"})
    (folder / "codes.json").write_text(json.dumps(runs.codes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
