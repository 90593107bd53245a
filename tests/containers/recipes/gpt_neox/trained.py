"""Runs tiny trainings of GPT-NeoX; each rank is a fork of one process that has imported torch once.

python -m tests.containers.recipes.gpt_neox.trained FOLDER
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from slipway.containers.data.megatron import index
from slipway.containers.recipes.gpt_neox import (
    model,  # noqa: F401 - imported once, for all ranks
    train,
)
from slipway.containers.training.engines.native import engine  # noqa: F401 - likewise
from tests.containers.recipes.trainings import Trainings
from tests.containers.training.self_checks import lossy_tensor_ranks

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


def write_tokens(folder: Path) -> None:
    """Write documents that count upwards, which a model learns fast."""
    folder.mkdir(parents=True)
    prefix, lengths = folder / "tokens", np.full(40, 50)
    starts = np.random.default_rng(0).integers(VOCABULARY, size=40)
    ids = ((starts[:, None] + np.arange(50)) % VOCABULARY).flatten().astype(np.uint16)
    index.write_tokens(index.tokens_path(prefix), np.uint16, [(ids, lengths)])
    index.write_index(index.index_path(prefix), np.uint16, [lengths.astype(np.int32)])


def main(folder: Path) -> None:
    write_tokens(folder / "data")
    runs = Trainings(folder, train.main, BASE)

    def run(name: str, world: int, changes: Mapping[str, str], cache: str = "empty") -> None:
        told: dict[str, str | Path] = {
            "NEURON_COMPILE_CACHE_URL": folder / cache,
            "SLIPWAY_USD_PER_HOUR": "21.5",
        }
        runs.run(name, world, changes, **told)

    measured = {"held_out": "tokens", "evaluate_every": str(STEPS), "held_out_rows": str(ROWS)}
    run("alone", 1, measured)
    run("whole", 1, {"rotary": "whole"})
    run("cut", 4, {**CUT, "micro_batch": "1"})
    runs.continue_from("alone", "resumed")
    run("resumed", 4, {**CUT, "micro_batch": "1", "sequence_parallel": "yes"})
    runs.continue_from("alone", "otherwise")
    run("otherwise", 1, {"rotary": "whole"})
    shutil.copytree(folder / "checkpoints" / "alone" / "model", folder / "data" / "published")
    run("from-published", 1, {"start_from_model": "published", "rotary": "whole", **measured})
    run("compile", 1, {"steps": "2"}, "cache")
    run("differs", 1, {"micro_batch": "4"}, "cache")
    run("same", 1, {"rate": "1e-3"}, "cache")
    run("short-vocabulary", 1, {"vocabulary": "100"})
    with lossy_tensor_ranks():
        run("lossy", 2, {"tensor": "2"})
        run("lossy-unchecked", 2, {"tensor": "2", "self_check": "no"})
    runs.finish()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
