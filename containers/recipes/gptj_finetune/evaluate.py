"""What a model makes of what is held out, whatever its layout: all ranks take part in each batch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from slipway.containers.recipes.gptj_finetune.data import TuningData, candidate_inputs
from slipway.containers.recipes.gptj_finetune.rows import RowLayout
from slipway.containers.runtime import disk
from slipway.containers.training.agreement import summed
from slipway.containers.training.devices import Device
from slipway.containers.training.engine import Engine
from slipway.containers.training.layout import Layout
from slipway.containers.training.report import Say

SCORES_NAME = "scores.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutScores:
    """Measure the loss of held-out text; of labelled sentences also how often their label is likelier."""

    data: TuningData
    rows: RowLayout
    micro_batch: int
    layout: Layout
    rank: int
    device: Device
    beat: Callable[[str], None]
    say: Say

    @property
    def count(self) -> int:
        """Return how many sentences, or rows of text, are measured on."""
        if self.data.wanted is not None:
            return len(self.data.wanted)
        return 0 if self.data.held_out is None else len(self.data.held_out)

    def run(self, engine: Engine, after: str) -> dict[str, float]:
        """Return the measures, the same on every rank."""
        if not self.count:
            return {}
        loss, right, count = self._sums(engine)
        found = {"loss": loss / count}
        if self.data.wanted is not None:
            found["accuracy"] = right / count
        told = "  ".join(f"{name} {value:.4f}" for name, value in found.items())
        self.say(f"held out after {after}: {told}  ({self.count} rows)")
        return found

    def _sums(self, engine: Engine) -> list[float]:
        """Return the sums of loss and right answers over what is held out, and how many they are."""
        readers, reader = self.layout.readers, self.layout.reader(self.rank)
        order = np.arange(self.count)
        if self.data.held_out is not None and self.data.wanted is not None:
            order = np.argsort(self.data.held_out.lengths[::2], kind="stable")
        batches = [order[at : at + self.micro_batch] for at in range(0, self.count, self.micro_batch)]
        sums = torch.zeros(3, dtype=torch.float64)
        for at in range(0, len(batches), readers):
            is_mine = at + reader < len(batches)  # else it goes along, since all ranks must
            chosen = batches[at + reader] if is_mine else batches[at]
            means = engine.evaluate(candidate_inputs(self.data, chosen, self.rows, self.device))
            self.beat(f"evaluating batch {at}")
            if is_mine and self.layout.speaks(self.rank):
                values = [float(value) for value in means]
                sums += torch.tensor([*values, 1.0], dtype=torch.float64) * len(chosen)
        return summed(sums.to(self.device.place, torch.float32 if self.device.kind != "cpu" else None))


def write_scores(folder: Path, task: str, scores: Mapping[str, float]) -> None:
    """Write the final measures as a file for programs."""
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"task": task, "scores": dict(scores)}, indent=1) + "\n"
    disk.replace_file(folder / SCORES_NAME, content.encode(), token=f"{os.getpid()}.new")
