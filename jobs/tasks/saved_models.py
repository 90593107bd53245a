"""The weights of a user's task: out of our checkpoints, or as a technique of the user's own has saved them.

Only this module and what it calls loads torch, and only where a model is asked for. No pickle is read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.checkpoint.resume import Search
from slipway.containers.runtime.collective import ALONE

if TYPE_CHECKING:
    from torch import nn

    from slipway.jobs.tasks.task import Task

CHECKPOINTS = "checkpoints"
_WEIGHTS = "weights.pt"


def is_saved(task: Task) -> bool:
    return (task.folder / _WEIGHTS).is_file() or bool(_checkpoints(task).steps())


def load(task: Task, *, fresh: bool) -> nn.Module:
    from slipway.containers.tasks.start import build_model

    model = build_model(task.describe())
    if fresh or not is_saved(task):
        return model
    own = task.folder / _WEIGHTS
    if own.is_file():
        import torch

        model.load_state_dict(torch.load(own, weights_only=True))
    else:
        _fill(task, model)
    return model


def save(task: Task, model: nn.Module) -> None:
    import torch

    task.folder.mkdir(parents=True, exist_ok=True)
    draft = task.folder / f".{_WEIGHTS}.{os.getpid()}"
    torch.save(model.state_dict(), draft)
    Path(draft).replace(task.folder / _WEIGHTS)


def _checkpoints(task: Task) -> CheckpointFolder:
    return CheckpointFolder(task.folder / CHECKPOINTS)


def _fill(task: Task, model: nn.Module) -> None:
    """Read the newest checkpoint's weights into the model."""
    import torch

    from slipway.containers.training.state import WEIGHTS, SavedState

    found = SavedState(Search(storage=_checkpoints(task), collective=ALONE, say=lambda line: None).newest())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(found.read(WEIGHTS, name))
