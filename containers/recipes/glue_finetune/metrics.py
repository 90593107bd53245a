"""GLUE's metrics (Wang et al. 2019, table 1). A new one is one function and one row of METRICS."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.glue.tasks import Task

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
    """Return Matthews' correlation; 0 if all rows are predicted alike, as in scikit-learn."""
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
