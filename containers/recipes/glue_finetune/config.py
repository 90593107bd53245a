"""What a person may set, `--set key=value`: read strictly, all mistakes told at once. Standard library only.

A new setting is one field of GlueConfig, one row of SETTINGS and, if it has one, a default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipway.containers.data.glue.tasks import TASKS, find_task
from slipway.containers.training.config import (
    CHECKPOINT_MINUTES,
    FREE_TO_CHANGE,
    TRAINING_SETTINGS,
    TrainingConfig,
)
from slipway.containers.training.settings import (
    LEARNING_RATE,
    Choice,
    InvalidSettings,
    Number,
    RelativePath,
    ValueKind,
    Whole,
    read_values,
    split_arguments,
)
from slipway.containers.training.text_location import S3OrFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueConfig(TrainingConfig):
    task: str
    data: str | None  # below the data folder, or in S3; None: the folder of the task's name
    model: str  # a directory, likewise
    start_from: str | None  # instead: the job whose model it is
    epochs: int
    steps: int | None  # fewer than the epochs have
    batch_per_node: int
    global_batch: int | None  # None: batch_per_node on every node
    micro_batch: int | None  # None: the most, up to 16, that the ranks can share
    pool_batches: int  # whose rows are sorted by length together; above 1 batches are no longer random
    max_length: int
    learning_rate: float
    warmup_share: float
    dropout: float | None  # None: the model's own
    evaluate: str

    @property
    def free_to_change(self) -> frozenset[str]:
        return FREE_TO_CHANGE | _OWN_FREE_TO_CHANGE


# start.py adds the batch, the rows and the model as they turn out.
_OWN_FREE_TO_CHANGE = frozenset(
    {"data", "model", "start_from", "batch_per_node", "global_batch", "micro_batch", "evaluate"}
)


@dataclass(frozen=True, slots=True)
class TaskName:
    wanted: str = f"one of {', '.join(TASKS)}"

    def read(self, text: str) -> str | None:
        task = find_task(text)
        return task.name if task else None


# The article's: batch, rate, epochs, length. The rest is what the transformers Trainer does by itself.
DEFAULTS: Mapping[str, str] = {
    "task": "mrpc",
    "model": "distilbert-base-uncased",
    "epochs": "3",
    "batch_per_node": "32",
    "pool_batches": "1",
    "max_length": "128",
    "optimizer": "adamw",
    "learning_rate": "2e-5",
    "warmup_share": "0",
    "weight_decay": "0",
    "clip_norm": "1",
    "precision": "auto",
    "backend": "auto",
    "on_nan": "stop",
    "seed": "42",
    "evaluate": "epoch",
    "resume": "auto",
    "checkpoint_every": "500",
    "checkpoint_minutes": CHECKPOINT_MINUTES,
    "keep": "2",
    "log_every": "10",
}

KEEPS_REST = True  # of an epoch, as a smaller step
_BATCH = Whole(1, 1_000_000)

SETTINGS: Mapping[str, ValueKind] = {
    "task": TaskName(),
    "data": S3OrFolder(),
    "model": S3OrFolder(),
    "start_from": RelativePath(),
    "epochs": Whole(1, 1000),
    "steps": Whole(1, 100_000_000),
    "batch_per_node": _BATCH,
    "global_batch": _BATCH,
    "micro_batch": Whole(1, 65_536),
    "pool_batches": Whole(1, 100_000),
    "max_length": Whole(8, 512),
    **TRAINING_SETTINGS,
    "optimizer": Choice(("adamw", "lamb")),
    "learning_rate": LEARNING_RATE,
    "warmup_share": Number(0.0, 1.0),
    "dropout": Number(0.0, 0.9),
    "backend": Choice(("auto", "gloo", "mpi", "ccl")),
    "evaluate": Choice(("epoch", "end")),
}


def decode_arguments(arguments: Sequence[str]) -> GlueConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    given, mistakes = split_arguments(arguments, SETTINGS)
    values, more = read_values({**DEFAULTS, **given}, SETTINGS)
    if {"model", "start_from"} <= given.keys():
        more.append("model and start_from are both set, and each says which model; set one")
    if mistakes or more:
        raise InvalidSettings([*mistakes, *more])
    return GlueConfig(**values)  # type: ignore[arg-type]  # SETTINGS reads each field as its type


# Fine-tuning on GLUE as the planner and the submitters see it. Standard library only: a laptop reads it.
NAME = "glue_finetune"
SUMMARY = "Fine-tune BERT or DistilBERT on a task of GLUE"
MODULE = "slipway.containers.recipes.glue_finetune.train"
ACCELERATORS = ("cpu",)
PARALLELISMS = ("data",)
JOB_SETTINGS = ("start_from",)  # each names a job on the same cluster
