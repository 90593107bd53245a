"""Begin a training: find its folders and checkpoints, and resume from a checkpoint's step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import torch

from slipway.containers.data.sources.locations import is_remote
from slipway.containers.models.folder import ModelPlan, write_model
from slipway.containers.models.names import Shape
from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Mode, Resumed, Take, Training
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.checkpoint.resume import read_manifest
from slipway.containers.runtime.checkpoint.storage import Storage
from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown
from slipway.containers.training.engine import Engine
from slipway.containers.training.state import WEIGHTS, SavedState

MICRO_BATCH = "micro_batch"  # beside a layout's degrees, in what a checkpoint says of who saved it


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Say where the loop begins: at step 0 without a cursor, or after a checkpoint's step."""

    step: int = 0
    cursor: Json = None
    folder: str = ""  # of that checkpoint, for messages
    topology: Mapping[str, int] = field(default_factory=dict)  # of who saved it, as far as it says


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Hold a running or finished training, for a recipe's work after steps and at the end."""

    contract: LaunchContract
    engine: Engine
    checkpoints: Checkpoints | None
    steps: int  # of the whole training


def local_folder(place: str) -> Path:
    """Return the folder of the data; raise Refusal for an address that is not a path."""
    if "://" in place:
        raise Refusal(
            f"the data are at {shown(place)}, and training reads and writes files",
            hint="give a folder that all nodes share",
        )
    return Path(place)


def below_data(contract: LaunchContract, given: str) -> Path:
    """Return the path below the data folder that a setting names."""
    if contract.data is None:
        raise Refusal("there is no data folder", hint="set SLIPWAY_DATA, which the cluster's jobs do")
    return disk.folder_within(str(local_folder(contract.data)), *given.split("/"))


def address_of_input(contract: LaunchContract, given: str) -> str:
    """Return the path or S3 address that a setting means; raise Refusal if there is no data folder."""
    if is_remote(given):
        return given
    if contract.data is None:
        raise Refusal("there is no data folder", hint="set SLIPWAY_DATA, or give s3:// addresses")
    if is_remote(contract.data):
        return f"{contract.data.rstrip('/')}/{given}"
    return str(below_data(contract, given))


@contextmanager
def open_checkpoints(
    contract: LaunchContract,
    training: Training,
    keep: int,
    collective: Collective,
    say: Callable[[str], None],
) -> Iterator[Checkpoints | None]:
    """Yield the checkpoints of this training, or None if SLIPWAY_CHECKPOINTS is not set."""
    if contract.checkpoints is None:
        say("SLIPWAY_CHECKPOINTS is not set: no checkpoints are saved")
        yield None
        return
    storage = open_storage(contract.checkpoints)
    with Checkpoints(storage, training, collective=collective, keep=keep, say=say) as checkpoints:
        yield checkpoints


def begin(
    trained: Trained, shapes: Mapping[str, tuple[int, ...]], mode: str, start_from: str | None
) -> Beginning:
    """Resume from the newest checkpoint that verifies on all ranks; without one, start from another job's
    weights where that was asked for, or from step 0."""
    engine, checkpoints = trained.engine, trained.checkpoints

    def restore(found: Resumed) -> None:
        engine.restore(_of_this_model(found, shapes), found.step)

    def start(found: Resumed) -> None:
        engine.start_from(_of_this_model(found, shapes))

    if checkpoints is not None:
        resume = partial(checkpoints.resume, cast(Mode, mode), reshard=True)
        if (found := _taken(engine, resume, restore)) is not None:
            return Beginning(
                step=found.step,
                cursor=found.manifest.cursor,
                folder=str(found),
                topology=found.manifest.topology,
            )
    if start_from is not None:
        _taken(engine, partial(_newest, trained, start_from), start)
    return Beginning()


def _taken(engine: Engine, search: Callable[..., Resumed | None], take: Take) -> Resumed | None:
    """Search, and take what is found: while it is verified, or afterwards where ranks must meet for it."""
    if engine.restores_alone:
        return search(take=take)
    if (found := search()) is not None:
        take(found)
    return found


def _of_this_model(found: Resumed, shapes: Mapping[str, tuple[int, ...]]) -> SavedState:
    saved = SavedState(found)
    saved.check(shapes)
    return saved


def newest_saved(storage: Storage, model: torch.nn.Module) -> SavedState:
    """Return the newest checkpoint; raise ForeignTensors if it holds another model than this one."""
    newest = read_manifest(storage, storage.steps()[0])
    return _of_this_model(Resumed(storage=storage, manifest=newest, rejected=frozenset()), shapes_of(model))


S = TypeVar("S", bound=Shape)


def export_model(
    storage: Storage, build: Callable[[S], torch.nn.Module], shape: S, files: Mapping[str, bytes]
) -> str:
    """Write the model of the newest checkpoint beside it, a tensor at a time; return a line that says so."""
    with torch.device("meta"):  # shapes alone: an engine may have cut the model that was trained
        saved = newest_saved(storage, build(shape))
    with storage.beside() as beside:
        plan = ModelPlan(shape=shape, sizes=saved.shapes)
        folder = write_model(beside, plan, partial(saved.read, WEIGHTS), files)
    return f"the model is in {storage}/{folder.name}"


def _newest(trained: Trained, job: str, take: Take | None = None) -> Resumed:
    """Return the newest good checkpoint of another job, which this one starts from."""
    place = open_storage(address_of_job(trained.contract, job))
    assert trained.checkpoints is not None, "it has the address"
    if not place.steps():
        raise Refusal(
            f"{place} holds no checkpoint to start from", hint="set start_from to a job that saved one"
        )
    return trained.checkpoints.newest_of(place, take=take)


def address_of_job(contract: LaunchContract, job: str) -> str:
    """Return where another job of this cluster saves."""
    if contract.checkpoints is None:
        raise Refusal("start_from needs a checkpoint folder", hint="set SLIPWAY_CHECKPOINTS")
    if "://" in contract.checkpoints:
        return f"{contract.checkpoints.rstrip('/').rpartition('/')[0]}/{job}"
    return str(disk.folder_within(str(Path(contract.checkpoints).parent), *job.split("/")))


def shapes_of(model: torch.nn.Module) -> Mapping[str, tuple[int, ...]]:
    """Return the shape of each parameter that is trained, before an engine cuts the model."""
    return {
        name: tuple(parameter.shape)
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }


# The address of checkpoints is a folder that all nodes share, or s3://bucket/prefix.
# Another kind of place is a class with storage.py's methods, and one row of SCHEMES.


def open_storage(address: str) -> Storage:
    """Return the storage at an address, without accessing it."""
    scheme, separator, _ = address.partition("://")
    if not separator:
        return CheckpointFolder(Path(address))
    if scheme not in SCHEMES:
        raise Refusal(
            f"the checkpoints are at {shown(address)}",
            hint="give a folder that all nodes share, or s3://bucket/prefix",
        )
    return SCHEMES[scheme](address)


def _open_bucket(address: str) -> Storage:
    from slipway.containers.training.bucket import open_bucket

    return open_bucket(address)


SCHEMES: Mapping[str, Callable[[str], Storage]] = {"s3": _open_bucket}
