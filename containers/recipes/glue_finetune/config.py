"""The settings of GLUE fine-tuning, `--set key=value`; reports all mistakes at once. Standard library only.

A new setting is one field of GlueConfig.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from slipway.containers.data.glue.tasks import TASKS, find_task
from slipway.containers.training.config import TrainingConfig
from slipway.containers.training.settings import (
    Count,
    LearningRate,
    MaybePath,
    Seed,
    Share,
    ValueKind,
    choice,
    made,
    number,
    read_settings,
    whole,
)
from slipway.containers.training.text_location import S3_OR_FOLDER


def _task_name(text: str) -> str | None:
    task = find_task(text)
    return task.name if task else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueConfig(TrainingConfig):
    # The article's: batch, rate, epochs, length. The rest is what the transformers Trainer does by itself.
    task: Annotated[str, ValueKind(f"one of {', '.join(TASKS)}", _task_name)] = "mrpc"
    # Below the data folder, or in S3; None: the folder of the task's name.
    data: Annotated[str | None, S3_OR_FOLDER] = None
    model: Annotated[str, S3_OR_FOLDER] = "distilbert-base-uncased"  # a directory, likewise
    start_from: MaybePath = None  # instead: the job whose model it is
    epochs: Annotated[int, whole(1, 1000)] = 3
    steps: Annotated[int | None, whole(1, 100_000_000)] = None  # fewer than the epochs have
    batch_per_node: Count = 32
    global_batch: Annotated[int | None, whole(1, 1_000_000)] = None  # None: batch_per_node on every node
    # None: the most, up to 16, that the ranks can share.
    micro_batch: Annotated[int | None, whole(1, 65_536)] = None
    # Batches whose rows are sorted by length together; above 1 they are no longer random.
    pool_batches: Annotated[int, whole(1, 100_000)] = 1
    max_length: Annotated[int, whole(8, 512)] = 128
    optimizer: Annotated[str, choice(("adamw", "lamb"))] = "adamw"
    learning_rate: LearningRate = 2e-5
    warmup_share: Share = 0.0
    weight_decay: Share = 0.0
    dropout: Annotated[float | None, number(0.0, 0.9)] = None  # None: the model's own
    device: Annotated[str, choice(("auto", "cuda", "cpu"))] = "auto"
    backend: Annotated[str, choice(("auto", "gloo", "mpi", "ccl"))] = "auto"
    seed: Seed = 42
    evaluate: Annotated[str, choice(("epoch", "end"))] = "epoch"
    checkpoint_every: Count = 500
    keep: Annotated[int, whole(2, 1000)] = 2

    # start.py adds the batch, the rows and the model as they turn out.
    own_free: ClassVar[frozenset[str]] = frozenset(
        {"data", "model", "start_from", "batch_per_node", "global_batch", "micro_batch", "evaluate"}
    )


KEEPS_REST = True  # of an epoch, as a smaller step


def decode_arguments(arguments: Sequence[str]) -> GlueConfig:
    """Decode `key=value` arguments as `--set` gives them; raise InvalidSettings with every mistake."""
    given, values, mistakes = read_settings(GlueConfig, arguments)
    if {"model", "start_from"} <= given.keys():
        mistakes.append("model and start_from are both set, and each says which model; set one")
    return made(GlueConfig, values, mistakes)


# Fine-tuning on GLUE as the planner and the submitters see it. Standard library only: a laptop reads it.
CONFIG = GlueConfig
SUMMARY = "Fine-tune BERT or DistilBERT on a task of GLUE"
MODULE = "slipway.containers.recipes.glue_finetune.train"
ACCELERATORS = ("cuda", "cpu")
JOB_SETTINGS = ("start_from",)  # each names a job on the same cluster
