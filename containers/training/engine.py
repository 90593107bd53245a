"""The interface between the loop and an engine, which spreads one model over ranks.

Another engine is a module with a `build` like those in engines/, and one entry of ENGINES.
"""

from __future__ import annotations

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from slipway.containers.runtime.checkpoint.tensor_file import torch_collective
from slipway.containers.runtime.collective import Collective
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.config import TrainingConfig
from slipway.containers.training.devices import (
    CONTROL_BACKEND,
    Device,
    control_group,
    joined_group,
    prepare_backend,
    refuse_other_world,
)
from slipway.containers.training.layout import DIMENSIONS, BatchPlan, Coordinates, Layout
from slipway.containers.training.optimizers import BETAS, EPSILON, decay_groups
from slipway.containers.training.state import ENGINE, LEFT_OUT, MOMENTS, WEIGHTS, SavedState, TensorPiece
from slipway.containers.training.task import Inputs, MicroBatch, Task


@dataclass(slots=True)
class StepWatch:
    """Time one step, and how long this rank worked before it waited for another: that tells who is slow.

    The host's time: an accelerator may still compute then.
    """

    began: float = 0.0
    own_seconds: float | None = None

    def begin(self) -> None:
        self.began, self.own_seconds = time.perf_counter(), None

    def wait_begins(self) -> None:
        """Tell that the first collective of the step comes next."""
        if self.own_seconds is None:
            self.own_seconds = self.seconds()

    def seconds(self) -> float:
        return time.perf_counter() - self.began


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """Hold the parts that an engine is built from."""

    config: TrainingConfig
    task: Task
    model: nn.Module  # as the recipe built it, in fp32: the engine brings it to the device, in its precision
    device: Device
    layout: Layout
    rank: int
    plan: BatchPlan
    watch: StepWatch
    mesh: DeviceMesh | None = None  # made once: each would hold memory of the device
    betas: tuple[float, float] = BETAS  # of the optimizer
    epsilon: float = EPSILON  # likewise

    @property
    def at(self) -> Coordinates:
        return self.layout.coordinates(self.rank)

    @property
    def is_mixed(self) -> bool:
        """Return True if layers compute in another precision than weights are kept in."""
        return self.device.precision is not torch.float32

    def optimizer_groups(self, parameters: Iterable[Tensor]) -> list[dict[str, Any]]:
        """Return the optimizer's parameter groups, by whether they decay, with its hyperparameters."""
        numbers = {"betas": self.betas, "eps": self.epsilon}
        return [{**group, **numbers} for group in decay_groups(parameters, self.config.weight_decay)]


class Engine(Protocol):
    """Train one model on all ranks. All of them call the same in the same order."""

    left_out: int  # steps whose gradients were not finite, which the optimizer has not counted

    @property
    def loss_scale(self) -> float | None:
        """Return what losses are multiplied by (fp16), or None. With a scale, a norm that is not finite is
        no end: the step was left out and the scale lowered."""

    def accumulate(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """Go forward and backward through a step's micro-batches; return the weighted sum of each metric.

        Only what the rank returns that speaks for its reader is counted (`Layout.speaks`).
        """

    def step(self, rate: float) -> float:
        """Update the weights; return the norm of all gradients before clipping. Where it is not finite, the
        weights stay as they are."""

    def evaluate(self, inputs: Inputs) -> Tensor:
        """Return the metrics of some rows, without dropout or gradients."""

    def pieces(self) -> Iterable[TensorPiece]:
        """Yield the pieces that this rank saves. Those of all ranks hold the training exactly once."""

    @property
    def restores_alone(self) -> bool:
        """Return True if ranks restore without communication, and so may while the bytes are verified."""

    def restore(self, saved: SavedState, steps: int) -> None:
        """Read this rank's part of a training that any layout and engine saved after `steps`."""

    def start_from(self, saved: SavedState) -> None:
        """Read the weights of another training, and its optimizer's moments, and count steps from 0: so go on
        the second phases of the published BERT trainings."""


class RestoredEngine(ABC):
    """Read saved trainings with `_load`, for engines without a loss scale: fp32 and bf16 need none."""

    left_out = 0

    @property
    def loss_scale(self) -> float | None:
        return None

    @property
    def restores_alone(self) -> bool:
        return True

    def restore(self, saved: SavedState, steps: int) -> None:
        self.left_out = saved.left_out
        self._load(saved, {WEIGHTS, *MOMENTS}, steps - self.left_out)

    def start_from(self, saved: SavedState) -> None:
        self._load(saved, saved.kinds, 0)

    def pieces_left_out(self, rank: int) -> Iterator[TensorPiece]:
        """Yield the count of steps left out, if there are any, for the first rank to save."""
        if self.left_out and not rank:
            yield TensorPiece.whole(ENGINE, LEFT_OUT, torch.tensor([float(self.left_out)]))

    @abstractmethod
    def _load(self, saved: SavedState, kinds: Collection[str], steps: int) -> None:
        """Read these kinds of tensors, and count `steps` as done."""


def evaluated(task: Task, model: nn.Module, inputs: Inputs) -> Tensor:
    """Return the metrics of some rows on a whole model, without dropout or gradients."""
    model.eval()
    with torch.no_grad():  # inference_mode's tensors may not be gathered into again
        means = task.forward(model, inputs)
    model.train()
    return means


def metric_sums(parts: EngineParts) -> Tensor:
    """Return zeros, one for each metric: in 64 bits where the device has them."""
    wide = torch.float64 if parts.device.kind == "cpu" else torch.float32
    return torch.zeros(len(parts.task.metrics), dtype=wide, device=parts.device.place)


def refuse_cut_models(parts: EngineParts, name: str) -> None:
    """Refuse a layout that cuts the model: this engine holds the whole model on every rank."""
    cut = {key: degree for key, degree in parts.layout.degrees.items() if key != "data" and degree > 1}
    if cut:
        asked = " and ".join(f"{key}={degree}" for key, degree in cut.items())
        raise Refusal(f"{asked}: engine {name} only copies a model", hint="set engine=native")


ENGINES: Mapping[str, str] = {
    "plain": "slipway.containers.training.engines.gradients",
    "deepspeed": "slipway.containers.training.engines.deepspeed",
    "native": "slipway.containers.training.engines.native.engine",
    "neuron": "slipway.containers.training.engines.neuron",
    "smp": "slipway.containers.training.engines.smp",
}

_WITHOUT: Mapping[str, str] = {
    "deepspeed": "install the extra 'deepspeed', or set zero=0 and engine=plain",
    "neuron": "train on nodes of the image neuron-slurm, or set engine=native",
    "smp": "train in an image that has SageMaker's model-parallel library v2, or set engine=native",
}


def build_engine(parts: EngineParts) -> Engine:
    name = parts.config.engine_name
    try:
        built: Engine = importlib.import_module(ENGINES[name]).build(parts)
    except ModuleNotFoundError as error:
        raise Refusal(
            f"engine {name} needs the package {error.name!r}, which is not installed here",
            hint=_WITHOUT.get(name, f"install {error.name} in what ranks run in"),
        ) from error
    return built


# The ranks of a layout as torch sees them: process groups, a device mesh, and a wire for small messages.


@contextmanager
def process_group(
    device: Device, contract: LaunchContract, *, alone_too: bool = False
) -> Iterator[Collective]:
    """Join all ranks for the duration; yield the wire for small messages. One rank joins if `alone_too`."""
    if contract.world == 1 and not alone_too:
        yield torch_collective()
        return
    prepare_backend(device.backend)
    with joined_group(device, contract):
        refuse_other_world(device.backend, contract)
        yield torch_collective(None if device.backend == CONTROL_BACKEND else control_group(contract))


def checkpoint_wire(contract: LaunchContract) -> Collective:
    """Return a wire for saves alone: they talk in the background, while the training uses all others."""
    if not distributed.is_initialized():
        return torch_collective()
    return torch_collective(control_group(contract))


def build_mesh(layout: Layout, device: Device) -> DeviceMesh:
    """Return the mesh with a process group along each of DIMENSIONS; all ranks call it."""
    return init_device_mesh(device.kind, tuple(layout.degrees.values()), mesh_dim_names=DIMENSIONS)
