"""The native engine: data parallel, sharded, tensor parallel and pipelined, in any combination, with torch's
own means (FSDP2, DTensor and pipelining)."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor.parallel import loss_parallel

from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.training.config import TrainingConfig
from slipway.containers.training.engine import EngineParts, RestoredEngine, build_mesh, metric_sums
from slipway.containers.training.engines.native.activations import Keeping, LayerMemory
from slipway.containers.training.engines.native.assembly import (
    Draws,
    HeldParameter,
    Initial,
    Part,
    cut_stage,
    fill,
    hold,
    keeping_ties,
    local_of,
    narrow_frozen,
    own_stages,
    shard,
)
from slipway.containers.training.engines.native.pipeline import Pipeline, staged
from slipway.containers.training.engines.native.updates import LossScale, Updates
from slipway.containers.training.state import (
    ENGINE,
    SavedState,
    TensorPiece,
)
from slipway.containers.training.task import Inputs, MicroBatch

_LOSS_SCALE = "loss_scale"


class LayoutEngine(RestoredEngine):
    def __init__(self, parts: EngineParts, settings: NativeSettings) -> None:
        self._parts = parts
        self._draws = Draws(parts.device.seed, parts.at.tensor)
        self._memory = LayerMemory(settings.keeping, self._draws)
        self.scale = LossScale() if parts.device.precision is torch.float16 else None
        self._keeps_weights = settings.keeps_weights
        self._pipeline: Pipeline | None = None
        self._held: list[HeldParameter] = []
        self._shared: set[str] = set()
        self._roots: list[nn.Module] = []
        self._build(settings)
        self._updates = Updates(parts, self._held)

    @property
    def loss_scale(self) -> float | None:
        return None if self.scale is None else self.scale.value

    def accumulate(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        sums, scale = metric_sums(self._parts), self.loss_scale or 1.0
        with self._cut_losses():
            if self._pipeline is None:
                for micro_batch in micro_batches:
                    sums += self._one(micro_batch, scale, is_last=micro_batch is micro_batches[-1])
            else:
                self._memory.in_flight = self._pipeline.in_flight(len(micro_batches))
                self._parts.watch.wait_begins()
                for means in self._pipeline.accumulate(micro_batches, self._outline, scale):
                    sums += means
                self._add_shared()
        return sums

    def step(self, rate: float) -> float:
        norm = self._updates.step(rate, self.loss_scale or 1.0)
        if self.scale is not None:
            self.scale.note(is_finite=math.isfinite(norm))
        self._parts.device.submit()
        return norm

    def evaluate(self, inputs: Inputs) -> Tensor:
        for root in self._roots:
            root.eval()
        with self._cut_losses(), torch.no_grad():
            if self._pipeline is None:
                means = local_of(self._parts.task.forward(self._parts.model, inputs))
            else:
                found = self._pipeline.evaluate(inputs, self._outline)
                means = metric_sums(self._parts) if found is None else found
        for root in self._roots:
            root.train()
        # Let go of gathered weights: the next pass then gathers what the shares hold by then.
        for module in (module for root in self._roots for module in root.modules()):
            if isinstance(module, FSDPModule):
                module.reshard()
        return means

    def pieces(self) -> Iterator[TensorPiece]:
        """Yield this rank's part of what is saved: ranks that hold the same take turns by parameter."""
        yield from self.pieces_left_out(self._parts.rank)
        if self.scale is not None and not self._parts.rank:
            yield TensorPiece.whole(ENGINE, _LOSS_SCALE, self.scale.as_tensor())
        at, layout = self._parts.at, self._parts.layout
        for number, one in enumerate(self._held):
            turn, data = divmod(number, layout.data)
            if not one.is_copy and data == at.data and (one.is_cut or turn % layout.tensor == at.tensor):
                for kind, tensor in self._updates.kinds(one).items():
                    yield from one.share.pieces(kind, one.name, tensor)

    def restore(self, saved: SavedState, steps: int) -> None:
        super().restore(saved, steps)
        if self.scale is not None and saved.has(ENGINE, _LOSS_SCALE):
            self.scale.take(saved.read(ENGINE, _LOSS_SCALE))

    @torch.no_grad()
    def _load(self, saved: SavedState, kinds: Collection[str], steps: int) -> None:
        saved.copy_to(
            piece
            for one in self._held
            for kind, tensor in self._updates.kinds(one).items()
            if kind in kinds
            for piece in one.share.pieces(kind, one.name, tensor)
        )
        self._updates.set_steps(steps)

    def _one(self, micro_batch: MicroBatch, scale: float, *, is_last: bool) -> Tensor:
        """Go forward and backward through one micro-batch; only the last one's gradients are sent."""
        root, layout = self._roots[0], self._parts.layout
        if isinstance(root, FSDPModule):
            root.set_requires_gradient_sync(is_last)
            root.set_is_last_backward(is_last)
            root.set_reshard_after_backward(is_last or not self._keeps_weights)
        self._draws.micro_batch = micro_batch.seed
        self._draws.begin(micro_batch.seed, 0)
        if is_last or layout.tensor * layout.sharded > 1:
            self._parts.watch.wait_begins()
        means = local_of(self._parts.task.forward(self._parts.model, micro_batch.inputs))
        (means[0] * (micro_batch.weight * scale)).backward()
        self._parts.device.submit()
        return means.detach() * micro_batch.weight

    def _add_shared(self) -> None:
        """Give both stages that hold a parameter the sum of their gradients."""
        assert self._pipeline is not None, "only stages share"
        for one in self._held:
            if one.name in self._shared:
                one.add_gradient(self._pipeline.exchange)

    def _cut_losses(self) -> AbstractContextManager[None]:
        """Let losses be computed on scores that are cut between tensor ranks."""
        return loss_parallel() if self._parts.layout.tensor > 1 else nullcontext()

    def _build(self, settings: NativeSettings) -> None:
        parts, model = self._parts, self._parts.model
        layout, device = parts.layout, parts.device
        count = layout.pipeline * settings.stages_per_rank
        initial = initial_weights(model, parts.config.seed)
        shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
        with keeping_ties(model):
            model.to("meta").train()
        make_gradients_dense(model)
        own, self._shared = own_stages(parts, count)
        if layout.pipeline > 1:
            self._outline = copy.deepcopy(model.cut(count)[0]).eval()
            self._pipeline = Pipeline(
                parts,
                self._draws,
                stages=count,
                schedule=settings.schedule,
                row_shares=layout.tensor if settings.cuts_rows else 1,
            )
        for number, stage in own.items():
            narrow_frozen(stage, parts)
            sides = cut_stage(stage, parts, cuts_rows=settings.cuts_rows)
            if layout.tensor == 1 and device.compiles:
                device.compile_layers(stage)
            else:  # no graph holds seeds that are set on the way through a layer
                self._draws.watch(stage)
            for name, layer in stage.layers.named_children():
                self._memory.take(layer, int(name))
            root = stage if self._pipeline is None else self._pipeline.take(number, stage)
            shard(root, list(stage.layers.children()), parts, keeps_weights=settings.keeps_weights)
            self._roots.append(root)
            # By the root: FSDP pads what memory is asked of it for, and moves the rest at the first step.
            with keeping_ties(root):
                root.to_empty(device=device.place)
            copies = self._shared if number else set()
            own_parameters = hold(stage, parts, shapes, sides, copies)
            fill(own_parameters, initial)
            # Frozen parameters are neither updated nor saved: they can be read again from their source.
            self._held += [one for one in own_parameters if one.parameter.requires_grad]


def initial_weights(model: nn.Module, seed: int) -> Initial:
    """Return where the weights come from: a published model, of which a rank reads its part alone; the
    model's own memory; or what it would draw there."""
    own = {name: parameter.detach() for name, parameter in model.named_parameters()}
    if hasattr(model, "published_part"):
        return lambda name, size: partial(model.published_part, name, size)
    if any(tensor.is_meta for tensor in own.values()):
        return lambda name, size: _cut_out(model.initial_weights(name, size, seed))
    return lambda name, size: _cut_out(own[name])


@torch.no_grad()
def fill_whole(model: nn.Module, initial: Initial, place: torch.device) -> None:
    """Give a model that is whole its memory, and its weights."""
    with keeping_ties(model):
        model.to_empty(device=place)
    for name, parameter in model.named_parameters():
        parameter.copy_(initial(name, parameter.shape)(Box.whole(parameter.shape)))


def _cut_out(whole: Tensor) -> Part:
    return lambda box: whole[box.slices]


def make_gradients_dense(model: nn.Module) -> None:
    """Turn off sparse gradients of embeddings: shares of them cannot be sent."""
    for module in model.modules():
        if hasattr(module, "has_sparse_gradient"):
            module.has_sparse_gradient = False


def build(parts: EngineParts) -> LayoutEngine:
    return build_native(parts, NativeSettings.of(parts.config))


def build_native(parts: EngineParts, settings: NativeSettings) -> LayoutEngine:
    if parts.layout.pipeline > 1:
        staged(parts.task)
    if parts.mesh is None and (parts.layout.world > 1 or parts.is_mixed):
        parts = replace(parts, mesh=build_mesh(parts.layout, parts.device))
    return LayoutEngine(parts, settings)


# The settings of this engine, beside those that all trainings share.


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSettings:
    schedule: str = "1f1b"
    stages_per_rank: int = 1
    keeping: Keeping = field(default_factory=Keeping)
    # Sharded ranks have whole weights during a step, gathered once, and share out gradients and moments only.
    keeps_weights: bool = False
    # Tensor ranks share the tokens of each row, too, where no matrix is cut: norms, residuals, dropout.
    cuts_rows: bool = False

    @classmethod
    def of(cls, config: TrainingConfig) -> NativeSettings:
        return cls(
            schedule=config.pipeline_schedule,
            stages_per_rank=config.stages_per_rank,
            keeping=Keeping.of(config.checkpoint_activations, offloads=config.offload_activations == "yes"),
            keeps_weights=config.sharded_state == "optimizer",
            cuts_rows=config.sequence_parallel == "yes",
        )
