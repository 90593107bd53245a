"""A model's answers to the sets whose labels are known, each rank a part of the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import distributed

from slipway.containers.data.glue.tasks import Task
from slipway.containers.data.glue.tokens import Examples
from slipway.containers.models.heads import Classifier
from slipway.containers.recipes.glue_finetune.data import inputs_of
from slipway.containers.recipes.glue_finetune.metrics import in_words, score
from slipway.containers.runtime.contract.contract import LaunchContract

ROWS = 64  # at once; by length, so that little is padded


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluations:
    task: Task
    sets: Mapping[str, Examples]
    model: Classifier
    contract: LaunchContract
    beat: Callable[[str], None]
    say: Callable[[str], None]

    def run(self, after: str) -> dict[str, dict[str, float]]:
        """Return the scores by set, the same on every rank."""
        found = {}
        for name, examples in self.sets.items():
            found[name] = scores = score(self.task, *self._answers(examples))
            told = in_words(scores, self.task.metrics)
            self.say(f"{self.task.name} {name} after {after}: {told}  ({len(examples)} rows)")
        return found

    def _answers(self, examples: Examples) -> tuple[np.ndarray, np.ndarray]:
        answers = torch.zeros(len(examples), self.task.outputs, dtype=torch.float32)
        order = np.argsort(examples.lengths, kind="stable")
        self.model.eval()
        with torch.inference_mode():
            for at in range(self.contract.rank * ROWS, len(order), self.contract.world * ROWS):
                rows = order[at : at + ROWS]
                answers[torch.from_numpy(rows)] = self.model(**inputs_of(examples, rows)[0])
                self.beat(f"evaluating row {at}")
        self.model.train()
        if self.contract.world > 1:  # each row is one rank's, and zero on all others
            distributed.all_reduce(answers)
        return answers.double().numpy(), examples.labels.astype(np.float64)
