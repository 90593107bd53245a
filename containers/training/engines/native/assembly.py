"""Cut a whole model down to one rank's part: its stages, its share of each matrix, and its rows of it.

This happens on the meta device, so no rank ever needs memory for the whole. Then each rank fills its shares,
one parameter at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.training.engine import EngineParts
from slipway.containers.training.report import mixed
from slipway.containers.training.state import TensorPiece

Part = Callable[[Box], Tensor]  # of one parameter's weights, in fp32
Initial = Callable[[str, torch.Size], Part]  # by its name and whole size


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldParameter:
    """Hold this rank's share of one parameter, in fp32 if it is trained."""

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

    def add_gradient(self, exchange: Callable[[Tensor], None]) -> None:
        """Let `exchange` add to this rank's share of the gradient what another stage's has."""
        parameter, own = self.parameter, self.gradient
        gradient = torch.zeros_like(self.local) if own is None else own.contiguous()
        exchange(gradient)
        if isinstance(parameter, DTensor):
            parameter.grad = DTensor.from_local(
                gradient,
                parameter.device_mesh,
                parameter.placements,
                run_check=False,
                shape=parameter.shape,
                stride=parameter.stride(),
            )
        else:
            parameter.grad = gradient


def local_of(tensor: Tensor) -> Tensor:
    """Return this rank's share of a tensor, which may be distributed."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def own_stages(parts: EngineParts, stages: int) -> tuple[dict[int, nn.Module], set[str]]:
    """Return this rank's stages by number, and the parameters that both the first and last stage have."""
    if parts.layout.pipeline == 1:
        return {0: parts.model}, set()
    cut: list[nn.Module] = parts.model.cut(stages)
    first, last = (set(dict(cut[end].named_parameters())) for end in (0, -1))
    own = range(parts.at.pipeline, stages, parts.layout.pipeline)
    return {number: cut[number] for number in own}, first & last


def narrow_frozen(stage: nn.Module, parts: EngineParts) -> None:
    """Keep frozen parameters in the type that layers compute in: only small updates need fp32."""
    for parameter in stage.parameters():
        if parts.is_mixed and not parameter.requires_grad:
            parameter.data = parameter.data.to(parts.device.precision)


def cut_stage(stage: nn.Module, parts: EngineParts, *, cuts_rows: bool) -> dict[str, tuple[int | None, int]]:
    """Cut a stage's matrices between tensor ranks; return each parameter's side, and how many it stacks."""
    cuts = planned_cuts(stage, parts.layout.tensor)
    if cuts:
        assert parts.mesh is not None, "several ranks have a mesh"
        with keeping_ties(stage):
            cut_modules(stage, cuts, parts.mesh["tensor"], cuts_rows=cuts_rows)
    return {name: cut_side(cuts, name) for name, _ in stage.named_parameters()}


def shard(root: nn.Module, layers: list[nn.Module], parts: EngineParts, *, keeps_weights: bool) -> None:
    """Cut what is left in shares of rows, or copy it to all readers; compute in the device's precision.

    With one reader in fp32 there is nothing to do. `keeps_weights` gathers them once in a step.
    """
    if parts.layout.readers == 1 and not parts.is_mixed:
        return
    assert parts.mesh is not None, "the process group was joined"
    names = ("data", "sharded") if parts.layout.data > 1 else ("sharded",)
    policy = MixedPrecisionPolicy()
    if parts.is_mixed:
        policy = MixedPrecisionPolicy(param_dtype=parts.device.precision, reduce_dtype=torch.float32)
    # A pipeline passes each layer many times a step: to gather it each time costs more than to keep it.
    reshards = parts.layout.pipeline == 1 and not keeps_weights
    for module in (*layers, root):
        cut = fully_shard(module, mesh=parts.mesh[names], mp_policy=policy, reshard_after_forward=reshards)
        # FSDP would let the backend average: gloo may add up instead, and NCCL err in a group of one.
        cut.set_force_sum_reduction_for_comms(enable=True)


def hold(
    stage: nn.Module,
    parts: EngineParts,
    whole_shapes: Mapping[str, torch.Size],
    sides: Mapping[str, tuple[int | None, int]],
    copies: set[str],
) -> list[HeldParameter]:
    """Return the parameters of a stage that has memory; `copies` are those that it only copies."""
    at, layout = parts.at, parts.layout
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
    """Fill this rank's share of each parameter with its weights."""
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


# The place of this rank's share in the whole tensor, for any cut.
Shape = tuple[int, ...]
Span = tuple[int, int]  # where a run of rows begins in the whole, and how many they are


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorShare:
    """Describe a rank's share: runs of whole rows, and for one cut by rows a part of each of them."""

    shape: Shape  # of the whole
    spans: tuple[Span, ...]  # of its first dimension, in the order in which this rank holds them
    columns: Span | None = None  # of its second, if it is cut there

    def boxes(self, local: Tensor) -> Iterator[tuple[Box, Tensor]]:
        """Yield each box of the whole, with the view of `local` that holds it."""
        held = 0
        for begin, count in self.spans:
            view = local[held : held + count]
            held += count
            offsets, sides = [begin] + [0] * (len(self.shape) - 1), list(view.shape)
            if self.columns is not None:
                offsets[1] = self.columns[0]
            if view.numel():
                yield Box(tuple(offsets), tuple(sides)), view
        assert held == local.shape[0], f"{self} is not what {tuple(local.shape)} holds"

    def pieces(self, kind: str, parameter: str, local: Tensor) -> Iterator[TensorPiece]:
        for box, view in self.boxes(local):
            yield TensorPiece(kind=kind, parameter=parameter, box=box, data=view)


def share_of(
    shape: Shape, *, side: int | None, stacked: int, tensor: tuple[int, int], sharded: tuple[int, int]
) -> TensorShare:
    """Return what a rank holds of a tensor that is cut between tensor ranks, then in shares of its rows.

    `tensor` and `sharded` are this rank's place among how many; `side` is the dimension that the tensor
    ranks cut.
    """
    columns, spans = None, [(0, shape[0])]
    if side == 0:  # a part of each stacked matrix
        whole = shape[0] // stacked
        each = whole // tensor[1]
        spans = [(number * whole + tensor[0] * each, each) for number in range(stacked)]
    elif side == 1:
        each = shape[1] // tensor[1]
        columns = (tensor[0] * each, each)
    return TensorShare(shape=shape, spans=tuple(_chunk(spans, *sharded)), columns=columns)


def _chunk(spans: list[Span], place: int, degree: int) -> Iterator[Span]:
    """Yield the share of one rank, as FSDP deals rows: equal shares, except for the last ranks."""
    rows = sum(count for _, count in spans)
    each = -(-rows // degree)
    low, high = min(place * each, rows), min((place + 1) * each, rows)
    passed = 0
    for begin, count in spans:
        first, last = max(low - passed, 0), min(high - passed, count)
        if first < last:
            yield begin + first, last - first
        passed += count


# Tensor parallelism: each rank of a tensor group holds some columns or rows of a layer's matrices.
# A model names the cuts in its `tensor_plan`, module by module (`*` is any layer):
# columns       the outputs, and so whole heads; `columns of 3` where three matrices are stacked in one
# rows          the inputs, which come cut from a module by columns; outputs are summed over the group
# words         an embedding by its words; scores: the head's words, and the loss is computed on the cut
# scores
# Other modules are whole on every rank, or with `cuts_rows` compute only a share of the tokens:
# matrices gather them, and scatter the sums of what they return (Korthikanti et al. 2022).


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Say how a module's weight and bias are cut, and which style of torch runs it."""

    style: Callable[[Placement], ParallelStyle]  # by how tokens lie outside of matrices
    weight_side: int  # the dimension of the weight that is cut
    cuts_bias: bool
    stacked: int = 1  # matrices that are one weight, each cut by itself
    may_stay_whole: bool = False


def _columns(tokens: Placement) -> ParallelStyle:
    return ColwiseParallel(input_layouts=tokens)


CUTS: Mapping[str, Cut] = {
    "columns": Cut(style=_columns, weight_side=0, cuts_bias=True),
    "columns of 3": Cut(style=_columns, weight_side=0, cuts_bias=True, stacked=3),
    "rows": Cut(style=lambda tokens: RowwiseParallel(output_layouts=tokens), weight_side=1, cuts_bias=False),
    "words": Cut(
        style=lambda tokens: RowwiseParallel(input_layouts=Replicate(), output_layouts=tokens),
        weight_side=0,
        cuts_bias=False,
        may_stay_whole=True,
    ),
    "scores": Cut(
        style=lambda _: ColwiseParallel(use_local_output=False),
        weight_side=0,
        cuts_bias=True,
        may_stay_whole=True,
    ),
}


def planned(model: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    """Yield each module that the model's plan names, with its name and the word for its cut."""
    plan: Mapping[str, str] = getattr(model, "tensor_plan", {})
    for name, module in model.named_modules():
        for pattern, word in plan.items():
            if fnmatchcase(name, pattern) and name.count(".") == pattern.count("."):
                yield name, module, word


def planned_cuts(model: nn.Module, degree: int) -> dict[str, Cut]:
    """Return the cut of each module; none if there is nothing to cut.

    Words that the degree does not divide stay whole on every rank: whoever had more of them would keep the
    others waiting.
    """
    if degree == 1:
        return {}
    found = {name: (module, CUTS[word]) for name, module, word in planned(model)}
    return {
        name: cut
        for name, (module, cut) in found.items()
        if not cut.may_stay_whole or module.weight.shape[cut.weight_side] % degree == 0
    }


def cut_modules(
    model: nn.Module, cuts: Mapping[str, Cut], mesh: DeviceMesh, *, cuts_rows: bool = False
) -> None:
    """Replace the parameters of the modules by this rank's share, and let them communicate."""
    tokens = Shard(1) if cuts_rows else Replicate()
    for name, cut in cuts.items():
        parallelize_module(model.get_submodule(name), mesh, cut.style(tokens))
    if cuts_rows:
        model.row_shares = mesh.size()
        for module in model.modules():
            if isinstance(module, nn.LayerNorm):
                parallelize_module(module, mesh, SequenceParallel(use_local_output=True))
        last = getattr(model, "norm", None)
        if last is not None:  # before the head, to which the caller may give some tokens of whole rows
            whole = PrepareModuleOutput(output_layouts=tokens, desired_output_layouts=Replicate())
            parallelize_module(last, mesh, whole)


def cut_side(cuts: Mapping[str, Cut], parameter: str) -> tuple[int | None, int]:
    """Return the dimension in which a parameter is cut, or None, and how many matrices are stacked in it."""
    module, _, leaf = parameter.rpartition(".")
    cut = cuts.get(module)
    if cut is None or (leaf == "bias" and not cut.cuts_bias):
        return None, 1
    return (0 if leaf == "bias" else cut.weight_side), cut.stacked


# Seed dropout by micro-batch, layer and place in the layer, so that it is the same for every cut of a model.
# Stages and layers run in another order in each layout, so one stream would give them other numbers. Within
# attention, each tensor rank draws only for its own heads: only there, and only with `tensor` above 1, does
# dropout differ from that of one process.


class Draws:
    def __init__(self, seed: Callable[[int], None], tensor_rank: int) -> None:
        self._seed = seed
        self._tensor_rank = tensor_rank
        self._layer_seed, self._place = 0, 0
        self.micro_batch = 0  # its own seed

    def begin(self, micro_batch: int, part: int) -> None:
        """Begin a part of the model: 0 is what comes before the layers, 1 the first layer, and so on."""
        self._layer_seed, self._place = mixed(micro_batch, part), 0
        self._seed(self._layer_seed)

    def watch(self, model: nn.Module) -> None:
        """Seed anew where a layer's heads begin, and where they end, cut or not."""
        for _, module, word in planned(model):
            if word.startswith("columns"):
                module.register_forward_hook(lambda *_: self._next(self._tensor_rank))
            elif word == "rows":
                module.register_forward_pre_hook(lambda *_: self._next(0))

    def _next(self, rank: int) -> None:
        self._place += 1
        self._seed(mixed(mixed(self._layer_seed, self._place), rank))
