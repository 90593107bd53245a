"""Read and write the weights of a user's task: our checkpoints, or what the user's own technique saved.

Only this module and what it calls loads torch, and only when a model is asked for. No pickle is read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.checkpoint.resume import Search
from slipway.containers.runtime.collective import ALONE
from slipway.containers.tasks.description import TaskDescription

if TYPE_CHECKING:
    from torch import nn

CHECKPOINTS = "checkpoints"
_WEIGHTS = "weights.pt"


def is_saved(folder: Path) -> bool:
    return (folder / _WEIGHTS).is_file() or bool(_checkpoints(folder).steps())


def load(folder: Path, task: TaskDescription, *, fresh: bool) -> nn.Module:
    from slipway.containers.tasks.start import build_model

    model = build_model(task)
    if fresh or not is_saved(folder):
        return model
    import torch

    own = folder / _WEIGHTS
    if own.is_file():
        model.load_state_dict(torch.load(own, weights_only=True))
        return model
    from slipway.containers.training.state import WEIGHTS, SavedState

    found = SavedState(Search(storage=_checkpoints(folder), collective=ALONE, say=lambda line: None).newest())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(found.read(WEIGHTS, name))
    return model


def save(folder: Path, model: nn.Module) -> None:
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{_WEIGHTS}.{os.getpid()}"
    torch.save(model.state_dict(), draft)
    Path(draft).replace(folder / _WEIGHTS)


def _checkpoints(folder: Path) -> CheckpointFolder:
    return CheckpointFolder(folder / CHECKPOINTS)
