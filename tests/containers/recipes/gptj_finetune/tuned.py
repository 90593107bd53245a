"""Tunings of one tiny GPT-J in many layouts, as real ranks: forks of one process that has imported torch.

python -m tests.containers.recipes.gptj_finetune.tuned FOLDER LAYOUT …
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from slipway.containers.data.samples.texts import write_task
from slipway.containers.recipes.gptj_finetune import model, train
from slipway.containers.training import session
from slipway.containers.training.engines.native import engine

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
# The name of each layout that must train as one process does: its ranks, and what is set.
LAYOUTS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "tp2": (2, {"tensor": "2"}),
    "fsdp2": (2, {"sharded": "2", "checkpoint_activations": "layer", "offload_activations": "yes"}),
    "optimizer2": (2, {"sharded": "2", "sharded_state": "optimizer", "micro_batch": "2"}),
    "pp2": (2, {"pipeline": "2", "checkpoint_activations": "layer"}),
    "pp2-gpipe": (2, {"pipeline": "2", "pipeline_schedule": "gpipe", "rows": "padded"}),
    "pp2-interleaved": (2, {"pipeline": "2", "pipeline_schedule": "interleaved", "stages_per_rank": "2"}),
    "tp2-pp2": (4, {"tensor": "2", "pipeline": "2"}),
    "hybrid": (4, {"sharded": "2"}),
}
LORA = {"lora_rank": "4", "rate": "1e-2"}


class Tunings:
    """Run tunings one after the other below one folder, and keep what they said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.codes: dict[str, list[int]] = {}

    def run(self, name: str, world: int, changes: Mapping[str, str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        settings = {**BASE, **changes}
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        children = []
        for rank in range(world):
            if (child := os.fork()) == 0:
                os.environ |= self._environment(name, rank, world, port)
                self._be_rank(name, rank, words)
            children.append(child)
        self.codes[name] = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

    def continue_from(self, other: str, name: str) -> None:
        """Give a run the checkpoint that another left half-way."""
        there = self.folder / "checkpoints" / name
        shutil.copytree(self.folder / "checkpoints" / other, there)
        shutil.rmtree(there / f"step-{STEPS:010}")
        shutil.rmtree(there / "model")

    def _be_rank(self, name: str, rank: int, words: list[str]) -> None:
        with (self.folder / f"{name}.{rank}.txt").open("w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            torch.set_num_threads(1)
            code = 1
            try:
                code = train.main(words)
            except BaseException:  # noqa: BLE001 - a fork ends here, whatever it was
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                sys.stdout.flush()
                os._exit(code)

    def _environment(self, name: str, rank: int, world: int, port: int) -> dict[str, str]:
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
            "SLIPWAY_ARCHIVE": self.folder / "archives" / name,
        }
        return {key: str(value) for key, value in told.items()}


def write_texts(folder: Path) -> None:
    """Write documents as JSON lines, and as text."""
    for name in ("lines", "plain"):
        (folder / name).mkdir()
    documents = ["to be or not to be " * 12, "that is the question " * 9] * 8
    lines = "".join(json.dumps({"id": at, "body": text}) + "\n" for at, text in enumerate(documents))
    (folder / "lines" / "a.jsonl").write_text(lines)
    (folder / "plain" / "a.txt").write_text("\n\n".join(documents))


def write_few(data: Path) -> None:
    """Write some of the rows alone: enough to compare layouts by."""
    (data / "few").mkdir()
    for name, rows in (("train", 64), ("dev", 24)):
        lines = (data / "sst2" / f"{name}.tsv").read_text().splitlines()[: rows + 1]
        (data / "few" / f"{name}.tsv").write_text("\n".join(lines) + "\n")


def main(folder: Path, layouts: Sequence[str]) -> None:
    """Run all tunings, and of the layouts from which no other resumes those that are asked for."""
    write_task(folder / "data" / "sst2", "sst2")
    write_few(folder / "data")
    write_texts(folder / "data")
    tunings = Tunings(folder)
    all_rows = {"data": "sst2", "epochs": "2", "global_batch": "32"}
    tunings.run("learned", 1, {**all_rows, "steps": str(LEARNED_STEPS)})
    tunings.run("alone", 1, {})
    tunings.run("padded", 1, {"rows": "padded"})
    for name in layouts:
        tunings.run(name, *LAYOUTS[name])
    for source, name in (("alone", "pp2"), ("tp2-pp2", "hybrid"), ("optimizer2", "alone")):
        tunings.continue_from(source, f"{source}-in-{name}")
        tunings.run(f"{source}-in-{name}", *LAYOUTS.get(name, (1, {})))
    shutil.copytree(folder / "checkpoints" / "learned" / "model", folder / "data" / "published")
    published = {"model": "published", **LORA}
    tunings.run("lora", 1, published)
    tunings.run("lora-tp2-pp2", 4, {**published, "tensor": "2", "pipeline": "2"})
    text = {"task": "text", "data": "lines", "field": "body", "held_out": "plain"}
    tunings.run("text", 2, {**text, "global_batch": "4", "micro_batch": "2", "sharded": "2"})
    tunings.run("fp16", 1, {"precision": "fp16", "steps": "2"})
    tunings.run("short", 1, {"global_batch": "4096", "micro_batch": "4096"})
    (folder / "codes.json").write_text(json.dumps(tunings.codes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
