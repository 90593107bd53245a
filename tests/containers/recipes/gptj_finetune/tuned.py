"""Runs tunings of one tiny GPT-J in many layouts; each rank is a fork of one process that has imported torch.

python -m tests.containers.recipes.gptj_finetune.tuned FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from slipway.containers.data.samples.texts import write_task
from slipway.containers.recipes.gptj_finetune import model, train
from slipway.containers.training import session
from slipway.containers.training.engines.native import engine
from tests.containers.recipes.trainings import Trainings

IMPORTED_ONCE = (model, session, engine)  # before the forks
STEPS, SAVED_AFTER = 4, 2
BASE: Mapping[str, str] = {
    "data": "few",
    "precision": "fp32",
    "steps": str(STEPS),
    "global_batch": "16",
    "micro_batch": "4",
    "checkpoint_every": str(SAVED_AFTER),
    "log_every": "1",
    "length": "48",
    "clip_norm": "0.5",
}
LEARNED_STEPS = 30
# Each layout that must train as one process does, by name: its ranks and settings.
LAYOUTS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "optimizer2": (2, {"sharded": "2", "sharded_state": "optimizer", "micro_batch": "2"}),
    "pp2": (2, {"pipeline": "2", "checkpoint_activations": "layer"}),
    "tp2-pp2": (4, {"tensor": "2", "pipeline": "2", "sequence_parallel": "yes"}),
}
# Resumes in another layout from what one of these saved halfway.
RESUMED: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "tp2-pp2-in-hybrid": (4, {"sharded": "2"}),
    "optimizer2-in-alone": (1, {}),
}
LORA = {"lora_rank": "4", "rate": "1e-2"}


def write_texts(folder: Path) -> None:
    """Write documents as JSON lines, and as text."""
    for name in ("lines", "plain"):
        (folder / name).mkdir()
    documents = ["to be or not to be " * 12, "that is the question " * 9] * 8
    lines = "".join(json.dumps({"id": at, "body": text}) + "\n" for at, text in enumerate(documents))
    (folder / "lines" / "a.jsonl").write_text(lines)
    (folder / "plain" / "a.txt").write_text("\n\n".join(documents))


def write_few(data: Path) -> None:
    """Write only some of the rows, which are enough to compare layouts."""
    (data / "few").mkdir()
    for name, rows in (("train", 64), ("dev", 24)):
        lines = (data / "sst2" / f"{name}.tsv").read_text().splitlines()[: rows + 1]
        (data / "few" / f"{name}.tsv").write_text("\n".join(lines) + "\n")


def main(folder: Path) -> None:
    write_task(folder / "data" / "sst2", "sst2")
    write_few(folder / "data")
    write_texts(folder / "data")
    tunings = Trainings(folder, train.main, BASE)

    def run(name: str, world: int, changes: Mapping[str, str]) -> None:
        tunings.run(name, world, changes, SLIPWAY_ARCHIVE=folder / "archives" / name)

    all_rows = {"data": "sst2", "epochs": "2", "global_batch": "32"}
    run("learned", 1, {**all_rows, "steps": str(LEARNED_STEPS)})
    run("alone", 1, {})
    run("padded", 1, {"rows": "padded"})
    for name, layout in LAYOUTS.items():
        run(name, *layout)
    for name, layout in RESUMED.items():
        tunings.continue_from(name.partition("-in-")[0], name)
        run(name, *layout)
    shutil.copytree(folder / "checkpoints" / "learned" / "model", folder / "data" / "published")
    published = {"model": "published", **LORA}
    run("lora", 1, published)
    run("lora-tp2-pp2", 4, {**published, "tensor": "2", "pipeline": "2"})
    text = {"task": "text", "data": "lines", "field": "body", "held_out": "plain"}
    run("text", 2, {**text, "global_batch": "4", "micro_batch": "2", "sharded": "2"})
    run("fp16", 1, {"precision": "fp16", "steps": "2"})
    run("short", 1, {"global_batch": "4096", "micro_batch": "4096"})
    tunings.finish()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
