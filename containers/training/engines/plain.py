"""Plain data parallel: weights, gradients and moments on every rank; fp32 weights next to a bf16 model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from slipway.containers.training.engine import EngineParts, metric_sums, refuse_cut_models
from slipway.containers.training.engines.gradients import GradientSum
from slipway.containers.training.optimizers import build_optimizer, decay_groups, set_rate
from slipway.containers.training.state import MOMENTS, WEIGHTS, TensorPiece, load_weights
from slipway.containers.training.task import Inputs, MicroBatch

_CLIP_EPSILON = 1e-6  # torch's and DeepSpeed's


class DataParallel:
    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts
        self._model = parts.model.to(parts.device.place, parts.device.precision).train()
        self._named: dict[str, Parameter] = dict(self._model.named_parameters())
        self._gradients = GradientSum(self._named.values(), parts.layout.world)
        self._masters = {name: self._master(parameter) for name, parameter in self._named.items()}
        groups = decay_groups(self._masters.values(), parts.config.weight_decay)
        self._optimizer = build_optimizer(
            parts.config.optimizer,
            [{**group, "eps": parts.epsilon} for group in groups],
            is_fused=parts.device.has_fused_adam,
        )

    @property
    def loss_scale(self) -> None:
        """Return None: neither fp32 nor bf16 needs one."""

    def accumulate(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        task, device = self._parts.task, self._parts.device
        sums = metric_sums(self._parts)
        for micro_batch in micro_batches:
            device.seed(micro_batch.seed)
            means = task.forward(self._model, micro_batch.inputs)
            if micro_batch is micro_batches[-1]:
                self._parts.watch.wait_begins()
                self._gradients.begin_last()
            (means[0] * micro_batch.weight).backward()
            sums += means.detach() * micro_batch.weight
            device.submit()
        return sums

    def step(self, rate: float) -> float:
        self._gradients.finish()
        norm = float(self._gradients.norm())
        if math.isfinite(norm):
            clip = self._parts.config.clip_norm / (norm + _CLIP_EPSILON)
            if clip < 1:
                self._gradients.scale(clip)
            set_rate(self._optimizer, rate)
            self._optimize()
            self._parts.device.submit()
        return norm

    def evaluate(self, inputs: Inputs) -> Tensor:
        self._model.eval()
        with torch.inference_mode():
            means = self._parts.task.forward(self._model, inputs)
        self._model.train()
        return means

    def pieces(self) -> list[TensorPiece]:
        """Return this rank's share of the whole tensors; every rank has them all."""
        mine = list(self._masters.items())[self._parts.rank :: self._parts.layout.world]
        kinds = [(WEIGHTS, name, master) for name, master in mine]
        kinds += [(kind, name, self._moments(master)[kind]) for name, master in mine for kind in MOMENTS]
        return [
            TensorPiece(kind=kind, parameter=name, start=0, data=tensor.detach().view(-1))
            for kind, name, tensor in kinds
        ]

    def weights(self) -> Iterator[TensorPiece]:
        for name, master in self._masters.items():
            yield TensorPiece(kind=WEIGHTS, parameter=name, start=0, data=master.detach().view(-1))

    def restore(self, pieces: Iterable[TensorPiece], steps: int) -> None:
        for piece in pieces:
            master = self._masters[piece.parameter]
            moments = self._moments(master)
            target = master if piece.kind == WEIGHTS else moments[piece.kind]
            piece.copy_to(target.detach().view(-1), 0)
            moments["step"].fill_(steps)
        self._publish_masters()

    def start_from(self, pieces: Iterable[TensorPiece]) -> None:
        for piece in pieces:
            if piece.kind == WEIGHTS:
                piece.copy_to(self._masters[piece.parameter].detach().view(-1), 0)
                load_weights(self._model, piece)

    def _master(self, parameter: Parameter) -> Tensor:
        if parameter.dtype is torch.float32:
            return parameter
        return parameter.detach().float()

    def _optimize(self) -> None:
        for name, parameter in self._named.items():
            self._masters[name].grad = self._gradients.views[parameter]
        self._optimizer.step()
        self._optimizer.zero_grad()  # lets go of the views; autograd would add to them
        self._publish_masters()

    def _publish_masters(self) -> None:
        if self._parts.device.precision is not torch.float32:
            with torch.no_grad():
                torch._foreach_copy_(list(self._named.values()), list(self._masters.values()))

    def _moments(self, master: Tensor) -> dict[str, Tensor]:
        """Return the optimizer's moments, and make them if no step has: torch makes them at the first one."""
        state: dict[str, Tensor] = self._optimizer.state[master]
        if not state:
            place = master.device if self._parts.device.has_fused_adam else torch.device("cpu")
            state["step"] = torch.zeros((), dtype=torch.float32, device=place)
            state |= {kind: torch.zeros_like(master) for kind in MOMENTS}
        return state


def build(parts: EngineParts) -> DataParallel:
    refuse_cut_models(parts, "plain")
    return DataParallel(parts)
