"""Score a model on the sets whose labels are known, each rank on a part of the rows, and keep the model.

Another metric is one function and one row of METRICS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed

from slipway.containers.data.glue.node_rows import Examples
from slipway.containers.data.glue.tasks import Task
from slipway.containers.models.encoder import Classifier
from slipway.containers.recipes.glue_finetune.config import GlueConfig
from slipway.containers.recipes.glue_finetune.data import Batches, inputs_of
from slipway.containers.recipes.glue_finetune.pretrained import Pretrained, write_classifier
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.report import Say, write_scores
from slipway.containers.training.start import Trained, newest_saved
from slipway.containers.training.state import WEIGHTS

ROWS = 64  # at once; by length, so that little is padded


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluations:
    task: Task
    sets: Mapping[str, Examples]
    model: Classifier
    contract: LaunchContract
    place: torch.device
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
        answers = torch.zeros(len(examples), self.task.outputs, dtype=torch.float32, device=self.place)
        order = np.argsort(examples.lengths, kind="stable")
        self.model.eval()
        with torch.inference_mode():
            for at in range(self.contract.rank * ROWS, len(order), self.contract.world * ROWS):
                rows = order[at : at + ROWS]
                inputs, _ = inputs_of(examples, rows, self.place)
                answers[torch.from_numpy(rows)] = self.model(**inputs)
                self.beat(f"evaluating row {at}")
        self.model.train()
        if self.contract.world > 1:  # each row is one rank's, and zero on all others
            distributed.all_reduce(answers)
        return answers.cpu().double().numpy(), examples.labels.astype(np.float64)


# GLUE's metrics (Wang et al. 2019, table 1).
Numbers = NDArray[np.float64]


def score(task: Task, outputs: Numbers, labels: Numbers) -> dict[str, float]:
    """Return the metrics of a task; NaN marks an undefined one.

    `outputs` has one column per label, and one column for a regression.
    """
    predicted = outputs[:, 0] if task.is_regression else outputs.argmax(axis=1).astype(np.float64)
    return {name: METRICS[name](predicted, labels) for name in task.metrics}


def accuracy(predicted: Numbers, labels: Numbers) -> float:
    return float((predicted == labels).mean())


def f1(predicted: Numbers, labels: Numbers) -> float:
    """Return F1 of label 1; 0 if no row has it and none was predicted, as in scikit-learn."""
    hits = float(((predicted == 1) & (labels == 1)).sum())
    called = float((predicted == 1).sum() + (labels == 1).sum())
    return 2 * hits / called if called else 0.0


def matthews(predicted: Numbers, labels: Numbers) -> float:
    """Return Matthews' correlation; 0 if all predictions are equal, as in scikit-learn."""
    found = pearson(predicted, labels)
    return 0.0 if math.isnan(found) else found  # of two labels it is their correlation


def pearson(predicted: Numbers, labels: Numbers) -> float:
    ours, theirs = predicted - predicted.mean(), labels - labels.mean()
    spread = math.sqrt(float(ours @ ours) * float(theirs @ theirs))
    return float(ours @ theirs) / spread if spread else math.nan


def spearman(predicted: Numbers, labels: Numbers) -> float:
    return pearson(_ranks(predicted), _ranks(labels))


def _ranks(values: Numbers) -> Numbers:
    """Rank the values; equal values share the mean of their ranks."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: Numbers = (ends - (counts - 1) / 2)[group]
    return means


METRICS: Mapping[str, Callable[[Numbers, Numbers], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
}


def in_words(scores: Mapping[str, float], order: Sequence[str]) -> str:
    return "  ".join(f"{name} {scores[name]:.4f}" for name in order)


# The end of each epoch, and of fine-tuning: score the model, and write it as a folder.


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneEnd:
    config: GlueConfig
    pretrained: Pretrained
    batches: Batches
    scoring: Evaluations
    say: Say

    def after(self, trained: Trained, steps: int) -> None:
        """Score the model at the end of each epoch except the last, which `finish` scores."""
        epochs, rest = divmod(steps, self.batches.per_epoch)
        if self.config.evaluate == "epoch" and not rest and steps < trained.steps:
            self.scoring.run(f"epoch {epochs}")

    def finish(self, trained: Trained) -> None:
        scores, contract = self.scoring.run(f"the last of {trained.steps} steps"), trained.contract
        if contract.rank == 0 and contract.logs:
            told: dict[str, Json] = {  # an undefined metric is null
                split: {name: None if math.isnan(value) else value for name, value in each.items()}
                for split, each in scores.items()
            }
            write_scores(Path(contract.logs), self.scoring.task.name, told)
        if contract.rank == 0 and trained.checkpoints is not None:
            model, storage = self.scoring.model, trained.checkpoints.storage
            saved = newest_saved(storage, model)
            weights = {name: saved.read(WEIGHTS, name) for name, _ in model.named_parameters()}
            with storage.beside() as beside:
                folder = write_classifier(beside, model, weights, self.pretrained, self.scoring.task)
            self.say(f"the model is in {storage}/{folder.name}")
