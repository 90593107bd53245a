"""What every training begins with: folders, checkpoints, and the step that a checkpoint says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch

from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Mode, Resumed, Training
from slipway.containers.runtime.checkpoint.manifest import read_manifest
from slipway.containers.runtime.checkpoint.resume import published
from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown
from slipway.containers.training.engine import Engine
from slipway.containers.training.state import read_pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Say where the loop begins: at step 0 without a cursor, or where a checkpoint says."""

    step: int = 0
    cursor: Json = None
    folder: str = ""  # of that checkpoint, for messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Hold a training that goes on, or is done, for what a recipe does after steps and at the end."""

    contract: LaunchContract
    engine: Engine
    checkpoints: Checkpoints | None
    steps: int  # of the whole training


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
    contract: LaunchContract,
    training: Training,
    keep: int,
    collective: Collective,
    say: Callable[[str], None],
) -> Iterator[Checkpoints | None]:
    """Yield the checkpoints of this training, or None if nobody said where they go."""
    if contract.checkpoints is None:
        say("SLIPWAY_CHECKPOINTS is not set: no checkpoints are saved")
        yield None
        return
    folder = local_folder("the checkpoints", contract.checkpoints)
    with Checkpoints(folder, training, collective=collective, keep=keep, say=say) as checkpoints:
        yield checkpoints


def begin(trained: Trained, sizes: Mapping[str, int], mode: str, start_from: str | None) -> Beginning:
    """Resume from the newest checkpoint that verifies on all ranks; without one, start from another job's
    weights where that was asked for, or from step 0."""
    engine, checkpoints = trained.engine, trained.checkpoints
    found = checkpoints.resume(cast(Mode, mode), reshard=True) if checkpoints else None
    if found is not None:
        engine.restore(read_pieces(found, sizes), found.step)
        return Beginning(step=found.step, cursor=found.manifest.cursor, folder=str(found.folder))
    if start_from is not None:
        engine.start_from(read_pieces(_newest(trained.contract, start_from), sizes))
    return Beginning()


def _newest(contract: LaunchContract, job: str) -> Resumed:
    """Return the newest checkpoint of another job, whose weights this one starts from. Its digests are
    checked as it is read."""
    folder = folder_of_job(contract, job)
    for path in published(folder).values():
        return Resumed(folder=path, manifest=read_manifest(path), rejected=frozenset())
    raise Refusal(
        f"{folder} holds no checkpoint to start from", hint="set start_from to a job that saved one"
    )


def folder_of_job(contract: LaunchContract, job: str) -> Path:
    """Return where another job of this cluster saves."""
    if contract.checkpoints is None:
        raise Refusal("start_from needs a checkpoint folder", hint="set SLIPWAY_CHECKPOINTS")
    beside = local_folder("the checkpoints", contract.checkpoints).parent
    return disk.folder_within(str(beside), *job.split("/"))


def element_counts(model: torch.nn.Module) -> Mapping[str, int]:
    return {name: parameter.numel() for name, parameter in model.named_parameters()}
