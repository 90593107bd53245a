"""What every training begins with: folders, checkpoints, and the step that a checkpoint says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, cast

import torch

from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Mode, Resumed, Training
from slipway.containers.runtime.checkpoint.tensors import torch_collective
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown
from slipway.containers.training.state import TensorPiece, read_pieces


class Restored(Protocol):
    def restore(self, pieces: Iterable[TensorPiece], steps: int) -> None: ...


def local_folder(what: str, place: str) -> Path:
    """Return the folder at `place`; raise Refusal for an address that is not a path."""
    if "://" in place:
        raise Refusal(
            f"{what} are at {shown(place)}, and training reads and writes files",
            hint="give a folder that all nodes share",
        )
    return Path(place)


@contextmanager
def open_checkpoints(
    contract: LaunchContract, keep: int, identity: dict[str, Json], say: Callable[[str], None]
) -> Iterator[Checkpoints | None]:
    """Yield the checkpoints of this training, or None if nobody said where they go."""
    if contract.checkpoints is None:
        say("SLIPWAY_CHECKPOINTS is not set: no checkpoints are saved")
        yield None
        return
    training = Training.of(contract, topology={"data": contract.world}, config=identity)
    folder = local_folder("the checkpoints", contract.checkpoints)
    with Checkpoints(folder, training, collective=torch_collective(), keep=keep, say=say) as checkpoints:
        yield checkpoints


def resume(
    engine: Restored, model: torch.nn.Module, checkpoints: Checkpoints | None, mode: str
) -> Resumed | None:
    """Load the newest checkpoint that verifies on all ranks into the engine and return it."""
    found = checkpoints.resume(cast(Mode, mode), reshard=True) if checkpoints else None
    if found is not None:
        engine.restore(read_pieces(found, element_counts(model)), found.step)
    return found


def element_counts(model: torch.nn.Module) -> Mapping[str, int]:
    return {name: parameter.numel() for name, parameter in model.named_parameters()}
