"""The settings of a rank of a user's own task, `--set key=value`: the task, and its spread over ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from slipway.containers.tasks.description import TaskDescription, parse_description, read_description
from slipway.containers.training.config import SpreadConfig, engine_mistakes
from slipway.containers.training.settings import (
    Count,
    InvalidSettings,
    ValueKind,
    choice,
    made,
    read_settings,
    whole,
)

# torch's class in lower case: our name of the optimizer, and torch's default weight decay.
OPTIMIZERS: Mapping[str, tuple[str, float]] = {
    "adamw": ("adamw", 0.01),
    "adam": ("adamw", 0.0),
    "sgd": ("sgd", 0.0),
}
# Larger than any norm, so that nothing is clipped.
_NO_CLIPPING = 1e30


# Descriptions are sent to clusters as JSON.
TASK_TEXT = ValueKind(
    "the path of a file, or a task as JSON", lambda text: text if text and "\0" not in text else None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTaskConfig(SpreadConfig):
    task: Annotated[TaskDescription, TASK_TEXT]
    steps: Annotated[int | None, whole(1, 10**9)] = None  # set for a trial of few steps
    device: Annotated[str, choice(("auto", "cuda", "cpu", "hpu", "neuron"))] = "auto"
    checkpoint_every: Count = 1000
    keep: Annotated[int, whole(2, 1000)] = 2
    # The task says these.
    precision: str
    seed: int
    weight_decay: float
    clip_norm: float


def decode_arguments(arguments: Sequence[str]) -> UserTaskConfig:
    """Decode the settings and read the task's file; raise InvalidSettings with every mistake."""
    given, values, mistakes = read_settings(UserTaskConfig, arguments)
    if "task" not in given:
        mistakes.append("task is not set; it names the file of the task, or is the task as JSON")
    if mistakes:
        raise InvalidSettings(mistakes)
    text = given["task"]
    task = parse_description(text) if text.startswith("{") else read_description(Path(text))
    if task.optimizer not in OPTIMIZERS:
        raise InvalidSettings(
            [f"optimizer_cls is {task.optimizer}; ours are {', '.join(OPTIMIZERS)}, or register a technique"]
        )
    optimizer, weight_decay = OPTIMIZERS[task.optimizer]
    values |= {
        "task": task,
        "optimizer": optimizer,
        "precision": task.precision,
        "seed": task.seed,
        "weight_decay": weight_decay,
        "clip_norm": _NO_CLIPPING,
    }
    return made(UserTaskConfig, values, list(engine_mistakes(values)))
