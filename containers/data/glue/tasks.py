"""The tasks of GLUE (Wang et al. 2019) that have labels: columns of text and labels, and metrics.

Another task is one row of TASKS. Columns have the names of the official download; the library datasets of
Hugging Face renames some. Labels have the order of datasets, as in models that were trained elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DATASETS_LABEL = "label"  # the column of every task in datasets; it holds a number


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Name one set of a task, and its file."""

    name: str
    tsv: str  # without .tsv


DEV = (Split(name="dev", tsv="dev"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    name: str
    texts: tuple[str, ...]  # columns of the TSV files: one sentence, or two
    label: str
    metrics: tuple[str, ...]
    labels: tuple[str, ...] = ()  # empty: the label is a score from 0 to highest_score
    datasets_texts: tuple[str, ...] = ("sentence1", "sentence2")  # the names of `texts` in datasets
    columns: tuple[str, ...] = ()  # given if the official files have no line of headings
    dev: tuple[Split, ...] = DEV
    known_damaged: int = 0  # lines of the official files that lack columns, and are left out
    highest_score: float = 0.0

    @property
    def outputs(self) -> int:
        return len(self.labels) or 1

    @property
    def is_regression(self) -> bool:
        return not self.labels


_ENTAILMENT = ("entailment", "not_entailment")
_BINARY = ("0", "1")
_MATCHES = (
    Split(name="matched", tsv="dev_matched"),
    Split(name="mismatched", tsv="dev_mismatched"),
)

TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="cola",
            columns=("source", "label", "star", "sentence"),
            texts=("sentence",),
            datasets_texts=("sentence",),
            label="label",
            labels=_BINARY,
            metrics=("matthews",),
        ),
        Task(
            name="sst2",
            texts=("sentence",),
            datasets_texts=("sentence",),
            label="label",
            labels=_BINARY,
            metrics=("accuracy",),
        ),
        Task(
            name="mrpc",
            texts=("#1 String", "#2 String"),
            label="Quality",
            labels=_BINARY,
            metrics=("accuracy", "f1"),
        ),
        Task(
            name="qqp",
            texts=("question1", "question2"),
            datasets_texts=("question1", "question2"),
            label="is_duplicate",
            labels=_BINARY,
            metrics=("accuracy", "f1"),
            known_damaged=3,  # train.tsv has 363,849 lines, and the published count is 363,846 pairs
        ),
        Task(
            name="stsb",
            texts=("sentence1", "sentence2"),
            label="score",
            metrics=("pearson", "spearman"),
            highest_score=5.0,
        ),
        Task(
            name="mnli",
            texts=("sentence1", "sentence2"),
            datasets_texts=("premise", "hypothesis"),
            label="gold_label",
            labels=("entailment", "neutral", "contradiction"),
            metrics=("accuracy",),
            dev=_MATCHES,
        ),
        Task(
            name="qnli",
            texts=("question", "sentence"),
            datasets_texts=("question", "sentence"),
            label="label",
            labels=_ENTAILMENT,
            metrics=("accuracy",),
        ),
        Task(
            name="rte",
            texts=("sentence1", "sentence2"),
            label="label",
            labels=_ENTAILMENT,
            metrics=("accuracy",),
        ),
        Task(
            name="wnli",
            texts=("sentence1", "sentence2"),
            label="label",
            labels=_BINARY,
            metrics=("accuracy",),
        ),
    )
}


def find_task(text: str) -> Task | None:
    """Return the task of this name, with or without the hyphen (SST-2, sst2). No path is a task's name."""
    return TASKS.get(text.lower().replace("-", "", 1))
