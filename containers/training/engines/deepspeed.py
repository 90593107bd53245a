"""The DeepSpeed engine, ZeRO 0 to 3. Checkpoints are ours: DeepSpeed's are pickles, with a file named latest.

DeepSpeed keeps for each parameter where in the rank's flat fp32 share it lies (`_hp_mapping`, and with ZeRO 3
`grad_position`, from which its own universal checkpoints are made): those stretches are our pieces.
"""

from __future__ import annotations

import logging
import math
import os
import traceback
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

import torch
from torch import Tensor

from slipway.containers.runtime.checkpoint.boxes import boxes_of_stretch
from slipway.containers.training.engine import (
    EngineParts,
    RestoredEngine,
    evaluated,
    metric_sums,
    refuse_cut_models,
)
from slipway.containers.training.optimizers import build_optimizer, set_rate, state_of
from slipway.containers.training.state import MOMENTS, WEIGHTS, SavedState, TensorPiece
from slipway.containers.training.task import Inputs, MicroBatch

PARTITIONED = 3  # the ZeRO stage that cuts the weights themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """Locate a stretch of one parameter within a flat tensor that this rank's optimizer updates."""

    parameter: str
    start: int  # within the parameter
    flat: Tensor
    at: int  # within `flat`
    elements: int
    shape: tuple[int, ...]  # of the parameter

    def of(self, tensor: Tensor) -> Tensor:
        return tensor.detach().view(-1)[self.at : self.at + self.elements]

    def pieces(self, kind: str, tensor: Tensor) -> Iterator[TensorPiece]:
        """Yield the boxes of the parameter that this stretch is made of, and what `tensor` holds of each."""
        rest = self.of(tensor)
        for box in boxes_of_stretch(self.shape, self.start, self.start + self.elements):
            data = rest[: box.elements].view(box.shape)
            yield TensorPiece(kind=kind, parameter=self.parameter, box=box, data=data)
            rest = rest[box.elements :]


class DeepSpeedEngine(RestoredEngine):
    def __init__(self, parts: EngineParts) -> None:
        import deepspeed

        self._parts = parts
        self._model = parts.model.to(parts.device.place, parts.device.precision).train()
        if parts.config.zero < PARTITIONED:  # else weights are gathered on the way through a layer
            parts.device.compile_layers(self._model)
        self._optimizer = build_optimizer(
            parts.config.optimizer,
            parts.optimizer_groups(self._model.parameters()),
            is_fused=parts.device.has_fused_adam,
        )
        with redirect_stdout(StringIO()):  # it prints its memory at every turn
            self._engine, *_ = deepspeed.initialize(
                model=self._model, optimizer=self._optimizer, config=build_config(parts)
            )

    def accumulate(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        task, device, plan = self._parts.task, self._parts.device, self._parts.plan
        assert len(micro_batches) == plan.accumulation_steps, "DeepSpeed counts them"
        sums = metric_sums(self._parts)
        for micro_batch in micro_batches:
            device.seed(micro_batch.seed)
            means = task.forward(self._engine, micro_batch.inputs)
            is_last = micro_batch is micro_batches[-1]
            if is_last:
                self._parts.watch.wait_begins()
            self._engine.backward(means[0] * (micro_batch.weight * plan.accumulation_steps))
            if not is_last:
                self._engine.step()  # counts the micro-batch; the last one is for `step` below
            sums += means.detach() * micro_batch.weight
            device.submit()
        return sums

    def step(self, rate: float) -> float:
        set_rate(self._optimizer, rate)
        own_norm = None
        if not self._parts.config.zero:
            # Before clipping: without ZeRO, DeepSpeed tells no norm, and steps where it is NaN.
            norms = torch._foreach_norm(
                [one.grad for one in self._model.parameters() if one.grad is not None]
            )
            own_norm = float(torch.stack(norms).norm())
            if not math.isfinite(own_norm):
                return own_norm
        try:
            self._engine.step()
        except AssertionError as error:
            # A NaN fails `assert all_groups_norm > 0.` of DeepSpeed 0.14, Gaudi's too.
            if "all_groups_norm" not in (traceback.extract_tb(error.__traceback__)[-1].line or ""):
                raise
            return math.nan
        self._parts.device.submit()
        return float(self._engine.get_global_grad_norm() or 0.0) if own_norm is None else own_norm

    def evaluate(self, inputs: Inputs) -> Tensor:
        return evaluated(self._parts.task, self._engine, inputs)

    def pieces(self) -> Iterator[TensorPiece]:
        yield from self.pieces_left_out(self._parts.rank)
        owned = list(self._all_owned())
        if not self._parts.config.zero:  # every rank has everything
            owned = owned[self._parts.rank :: self._parts.layout.world]
        for stretch in owned:
            for kind in (WEIGHTS, *MOMENTS):
                yield from stretch.pieces(kind, self._tensor(stretch, kind))

    @property
    def restores_alone(self) -> bool:
        """ZeRO 3 gathers again, in the end, what it keeps whole."""
        return self._parts.config.zero != PARTITIONED

    def _load(self, saved: SavedState, kinds: Collection[str], steps: int) -> None:
        """Read the whole weights where a rank computes with them, and of the rest what it holds."""
        owned, zero = list(self._all_owned()), self._parts.config.zero
        if 0 < zero < PARTITIONED:
            saved.copy_to(
                TensorPiece.whole(WEIGHTS, name, parameter)
                for name, parameter in self._model.named_parameters()
            )
        saved.copy_to(
            piece
            for stretch in owned
            for kind in (WEIGHTS, *MOMENTS)
            if kind in kinds
            for piece in stretch.pieces(kind, self._tensor(stretch, kind))
        )
        if zero == PARTITIONED:
            self._publish_shares()
        for stretch in owned:
            self._state(stretch.flat)["step"].fill_(steps)

    def _publish_shares(self) -> None:
        """Let ZeRO 3 compute with the fp32 shares that were loaded, and gather again what it keeps whole."""
        optimizer = self._engine.optimizer
        optimizer.checkpoint_event_prologue()
        flats = zip(
            optimizer.fp16_partitioned_groups_flat, optimizer.fp32_partitioned_groups_flat, strict=True
        )
        for number, (low, high) in enumerate(flats):
            low.data.copy_(high.data)
            optimizer._unflatten_partitioned_parameters(number)
        optimizer.checkpoint_event_epilogue()

    def _all_owned(self) -> Iterator[Owned]:
        for name, parameter in self._model.named_parameters():
            if self._parts.config.zero == PARTITIONED:
                yield from self._share_of(name, parameter)
            elif not self._parts.config.zero:
                yield Owned(
                    parameter=name,
                    start=0,
                    flat=parameter,
                    at=0,
                    elements=parameter.numel(),
                    shape=tuple(parameter.shape),
                )
            elif (mapping := parameter._hp_mapping) is not None:
                (flat,) = self._optimizer.param_groups[mapping.param_group_index]["params"]
                yield Owned(
                    parameter=name,
                    start=mapping.lp_fragment_address.start,
                    flat=flat,
                    at=mapping.hp_fragment_address.start,
                    elements=mapping.hp_fragment_address.numel,
                    shape=tuple(parameter.shape),
                )

    def _share_of(self, name: str, parameter: Any) -> Iterator[Owned]:
        """Yield this rank's share of a parameter that ZeRO 3 cut into equal ones, padded at the end."""
        optimizer = self._engine.optimizer
        group, at, elements = optimizer.grad_position[optimizer.get_param_id(parameter)]
        start = self._parts.rank * elements
        if (held := min(elements, parameter.ds_numel - start)) > 0:
            flat = optimizer.fp32_partitioned_groups_flat[group]
            shape = tuple(parameter.ds_shape)
            yield Owned(parameter=name, start=start, flat=flat, at=at, elements=held, shape=shape)

    def _tensor(self, owned: Owned, kind: str) -> Tensor:
        return owned.flat if kind == WEIGHTS else self._state(owned.flat)[kind]

    def _state(self, flat: Tensor) -> dict[str, Tensor]:
        return state_of(self._optimizer, flat, is_fused=self._parts.device.has_fused_adam)


def build_config(parts: EngineParts) -> dict[str, object]:
    """Return the whole configuration of DeepSpeed; none of it comes from a file or the environment."""
    is_bf16 = parts.device.precision is torch.bfloat16
    return {
        "train_micro_batch_size_per_gpu": parts.plan.micro_batch,
        "gradient_accumulation_steps": parts.plan.accumulation_steps,
        "train_batch_size": parts.plan.global_batch,
        "gradient_clipping": parts.config.clip_norm,
        "zero_optimization": {"stage": parts.config.zero},
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": is_bf16},
        # Summed in bf16, 24 micro-batches lose the last ones.
        "data_types": {"grad_accum_dtype": "fp32"},
        "steps_per_print": 1_000_000_000,
    }


def build(parts: EngineParts) -> DeepSpeedEngine:
    refuse_cut_models(parts, "deepspeed")
    os.environ["DS_ACCELERATOR"] = parts.device.kind  # else it guesses, and says so in every rank
    import deepspeed
    from deepspeed.utils import logger

    logger.setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", ".*all_gather_into_tensor.*", FutureWarning)  # its to heed, not ours
    # This operation is for inference, yet DeepSpeed compiles it when a CPU rank joins a group, and a build
    # that was killed leaves a lock that all later ranks wait on forever.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(dist_init_required=False, verbose=False)
    return DeepSpeedEngine(parts)
