"""What a rank of a user's own task is told, `--set key=value`: its file, and how it is spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.tasks.description import TaskDescription, parse_description, read_description
from slipway.containers.training.config import (
    CHECKPOINT_MINUTES,
    ENGINE_DEFAULTS,
    ENGINE_SETTINGS,
    TRAINING_SETTINGS,
    TrainingConfig,
    engine_mistakes,
)
from slipway.containers.training.settings import (
    Choice,
    InvalidSettings,
    ValueKind,
    Whole,
    read_values,
    split_arguments,
)

# Names of torch's classes in small letters: what an engine calls it, and torch's own weight decay.
OPTIMIZERS: Mapping[str, tuple[str, float]] = {
    "adamw": ("adamw", 0.01),
    "adam": ("adamw", 0.0),
    "sgd": ("sgd", 0.0),
}
# Where nobody asked for clipping: larger than any norm.
_NO_CLIPPING = 1e30
_OF_TASK = ("precision", "seed", "weight_decay", "clip_norm")


@dataclass(frozen=True, slots=True)
class TaskText:
    """Read the path of a file on this machine, or a description as JSON, which clusters are sent."""

    wanted: str = "the path of a file, or a task as JSON"

    def read(self, text: str) -> str | None:
        return text if text and "\0" not in text else None


SETTINGS: Mapping[str, ValueKind] = {
    "task": TaskText(),
    "steps": Whole(1, 10**9),
    "device": Choice(("auto", "cuda", "cpu", "hpu", "neuron")),
    **{name: kind for name, kind in TRAINING_SETTINGS.items() if name not in _OF_TASK},
    **ENGINE_SETTINGS,
}
DEFAULTS: Mapping[str, str] = {
    "device": "auto",
    "on_nan": "stop",
    "resume": "auto",
    "checkpoint_every": "1000",
    "checkpoint_minutes": CHECKPOINT_MINUTES,
    "keep": "2",
    "log_every": "10",
    **ENGINE_DEFAULTS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTaskConfig(TrainingConfig):
    task: TaskDescription
    steps: int | None  # only so many, for a trial


def decode_arguments(arguments: Sequence[str]) -> UserTaskConfig:
    """Decode the settings and read the task's file; raise InvalidSettings with every mistake."""
    given, mistakes = split_arguments(arguments, SETTINGS)
    values, more = read_values({**DEFAULTS, **given}, SETTINGS)
    mistakes += more
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
    told: dict[str, object] = {
        "optimizer": optimizer,
        "precision": task.precision,
        "seed": task.seed,
        "weight_decay": weight_decay,
        "clip_norm": _NO_CLIPPING,
    }
    if contradictions := list(engine_mistakes({**values, **told})):
        raise InvalidSettings(contradictions)
    return UserTaskConfig(**{**values, **told, "task": task})  # type: ignore[arg-type]  # SETTINGS reads each as its type
