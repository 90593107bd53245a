"""Turn a whole model into what one rank holds of it: its stages, its share of each matrix, its rows of that.

All of it happens on the meta device: no rank ever has the memory of the whole. Then each rank fills its
shares, one parameter at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.training.devices import Device
from slipway.containers.training.engines.native.shares import TensorShare, share_of
from slipway.containers.training.engines.native.tensor_parallel import cut_modules, cut_side, planned_cuts
from slipway.containers.training.layout import Coordinates, Layout

Part = Callable[[Box], Tensor]  # of one parameter's weights, in fp32
Initial = Callable[[str, torch.Size], Part]  # by its name and whole size


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlace:
    """Say which part of the work is this rank's."""

    layout: Layout
    rank: int
    device: Device
    mesh: DeviceMesh | None  # None: this rank is alone

    @property
    def at(self) -> Coordinates:
        return self.layout.coordinates(self.rank)

    @property
    def is_mixed(self) -> bool:
        """Return True if layers compute in another precision than weights are kept in."""
        return self.device.precision is not torch.float32


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldParameter:
    """Hold this rank's share of one parameter, in fp32."""

    name: str  # in the whole model
    parameter: nn.Parameter
    share: TensorShare
    is_cut: bool  # between tensor ranks; else all of them have the same
    is_copy: bool  # an earlier stage has it, too, and speaks for both

    @property
    def local(self) -> Tensor:
        """Return the tensor itself: to change it is to change the parameter."""
        return local_of(self.parameter.detach())

    @property
    def gradient(self) -> Tensor | None:
        gradient = self.parameter.grad
        if isinstance(gradient, DTensor) and gradient.placements != self.parameter.placements:
            gradient = gradient.redistribute(placements=self.parameter.placements)
        return None if gradient is None else local_of(gradient)


def local_of(tensor: Tensor) -> Tensor:
    """Return what this rank has of a tensor that may be distributed."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def own_stages(model: nn.Module, place: RankPlace, stages: int) -> tuple[dict[int, nn.Module], set[str]]:
    """Return this rank's stages by number, and the parameters that both the first and last stage have."""
    if place.layout.pipeline == 1:
        return {0: model}, set()
    parts: list[nn.Module] = model.cut(stages)
    first, last = (set(dict(parts[end].named_parameters())) for end in (0, -1))
    own = range(place.at.pipeline, stages, place.layout.pipeline)
    return {number: parts[number] for number in own}, first & last


def cut_stage(stage: nn.Module, place: RankPlace) -> dict[str, tuple[int | None, int]]:
    """Cut a stage's matrices between tensor ranks; return each parameter's side, and how many it stacks."""
    cuts = planned_cuts(stage, place.layout.tensor)
    if cuts:
        assert place.mesh is not None, "several ranks have a mesh"
        with keeping_ties(stage):
            cut_modules(stage, cuts, place.mesh["tensor"])
    return {name: cut_side(cuts, name) for name, _ in stage.named_parameters()}


def shard(root: nn.Module, layers: list[nn.Module], place: RankPlace, *, keeps_weights: bool) -> None:
    """Cut what is left in shares of rows, or copy it to all readers; compute in the device's precision.

    With one reader in fp32 there is nothing to do. `keeps_weights` gathers them once in a step.
    """
    if place.layout.readers == 1 and not place.is_mixed:
        return
    assert place.mesh is not None, "the process group was joined"
    names = ("data", "sharded") if place.layout.data > 1 else ("sharded",)
    policy = MixedPrecisionPolicy()
    if place.is_mixed:
        policy = MixedPrecisionPolicy(param_dtype=place.device.precision, reduce_dtype=torch.float32)
    # A pipeline passes each layer many times a step: to gather it each time costs more than to keep it.
    reshards = place.layout.pipeline == 1 and not keeps_weights
    for module in (*layers, root):
        cut = fully_shard(module, mesh=place.mesh[names], mp_policy=policy, reshard_after_forward=reshards)
        # PyTorch 2.8 would let the backend average: gloo adds up instead, and NCCL may err in a group of one.
        cut.set_force_sum_reduction_for_comms(enable=True)


def hold(
    stage: nn.Module,
    place: RankPlace,
    whole_shapes: Mapping[str, torch.Size],
    sides: Mapping[str, tuple[int | None, int]],
    copies: set[str],
) -> list[HeldParameter]:
    """Give a stage memory on the device and return its parameters; `copies` are those that it only copies."""
    with keeping_ties(stage):
        stage.to_empty(device=place.device.place)
    at, layout = place.at, place.layout
    held = []
    for name, parameter in stage.named_parameters():
        side, stacked = sides[name]
        share = share_of(
            tuple(whole_shapes[name]),
            side=side,
            stacked=stacked,
            tensor=(at.tensor, layout.tensor),
            sharded=(at.sharded, layout.sharded),
        )
        held.append(
            HeldParameter(
                name=name, parameter=parameter, share=share, is_cut=side is not None, is_copy=name in copies
            )
        )
    return held


@torch.no_grad()
def fill(held: list[HeldParameter], initial: Initial) -> None:
    """Give this rank's share of each parameter its weights."""
    for one in held:
        part = initial(one.name, torch.Size(one.share.shape))
        for box, view in one.share.boxes(one.local):
            view.copy_(part(box))


@contextmanager
def keeping_ties(model: nn.Module) -> Iterator[None]:
    """Let modules that share a parameter share it afterwards, too, though it was replaced in each."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    yield
    for first, *others in names.values():
        for other in others:
            module, _, leaf = other.rpartition(".")
            setattr(model.get_submodule(module), leaf, model.get_parameter(first))
