"""The SMP engine: SageMaker's model-parallel library v2, which shards weights in groups over PyTorch's FSDP.

SMP v2 has no pipelines, and its tensor parallelism takes some models of transformers and none of ours:
layouts with either are refused. What is left of SMP is the groups, which its `init` makes for FSDP, and
moving activations. Each rank begins with the whole model in host memory, and the first one gathers all of it
to save.

Never tried with SMP itself. What it calls is held to the signatures that AWS published, and its own part runs
in tests on a stand-in of two ranks, for which torch's FSDP does all.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.sagemaker as tsm
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    offload_wrapper,
)
from torch.distributed.fsdp import (
    FullOptimStateDictConfig,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from slipway.containers.models.decoder import Decoder, DecoderLayer
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.engine import EngineParts, RestoredEngine, evaluated, metric_sums
from slipway.containers.training.engines.native.engine import fill_whole, initial_weights
from slipway.containers.training.optimizers import build_optimizer, set_rate
from slipway.containers.training.state import MOMENTS, WEIGHTS, SavedState, TensorPiece
from slipway.containers.training.task import Inputs, MicroBatch


class SmpEngine(RestoredEngine):
    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts
        tsm.init(
            {
                "hybrid_shard_degree": parts.layout.sharded,
                "tensor_parallel_degree": 1,
                "sm_activation_offloading": parts.config.offload_activations == "yes",
                "random_seed": parts.config.seed,
            }
        )
        decays = {name: each.ndim > 1 for name, each in parts.model.named_parameters()}
        self._trained = [name for name, each in parts.model.named_parameters() if each.requires_grad]
        # The model gets its weights whole and in host memory; FSDP then keeps this rank's shares.
        fill_whole(parts.model, initial_weights(parts.model, parts.config.seed), torch.device("cpu"))
        self._model = _wrapped(parts.model, parts)
        self._optimizer = build_optimizer(
            parts.config.optimizer, self._groups(decays), is_fused=parts.device.has_fused_adam
        )

    def accumulate(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        sums = metric_sums(self._parts)
        # FSDP adds up in the type of the layers what it does not send: in bf16 the last ones would be lost.
        must_send = self._parts.device.precision is not torch.float32
        self._parts.watch.wait_begins()
        for micro_batch in micro_batches:
            self._parts.device.seed(micro_batch.seed)
            sends = must_send or micro_batch is micro_batches[-1]
            waits: AbstractContextManager[object] = nullcontext() if sends else self._model.no_sync()
            with waits:
                means = self._parts.task.forward(self._model, micro_batch.inputs)
                (means[0] * micro_batch.weight).backward()
            sums += means.detach() * micro_batch.weight
        return sums

    def step(self, rate: float) -> float:
        norm = float(self._model.clip_grad_norm_(self._parts.config.clip_norm))
        if math.isfinite(norm):
            set_rate(self._optimizer, rate)
            self._optimizer.step()
        self._optimizer.zero_grad()
        return norm

    def evaluate(self, inputs: Inputs) -> Tensor:
        return evaluated(self._parts.task, self._model, inputs)

    def pieces(self) -> Iterator[TensorPiece]:
        """Yield everything on the first rank, which has gathered it; all ranks must call."""
        yield from self.pieces_left_out(self._parts.rank)
        with self._whole_state(first_rank_only=True):
            weights = self._model.state_dict()
            states = FullyShardedDataParallel.optim_state_dict(self._model, self._optimizer).get("state", {})
        for name in self._trained if self._parts.rank == 0 else []:
            yield TensorPiece.whole(WEIGHTS, name, weights[name])
            for kind in MOMENTS:
                moment = states.get(name, {}).get(kind)
                yield TensorPiece.whole(
                    kind, name, torch.zeros_like(weights[name]) if moment is None else moment
                )

    @property
    def restores_alone(self) -> bool:
        return False

    def _load(self, saved: SavedState, kinds: Collection[str], steps: int) -> None:
        with self._whole_state(first_rank_only=False):
            read = {name: saved.read(WEIGHTS, name) for name in self._trained}
            self._model.load_state_dict(read, strict=len(read) == len(list(self._model.parameters())))
            if MOMENTS[0] not in kinds:
                return
            whole = FullyShardedDataParallel.optim_state_dict(self._model, self._optimizer)
            whole["state"] = {
                name: {
                    **{kind: saved.read(kind, name) for kind in MOMENTS},
                    "step": torch.tensor(float(steps)),
                }
                for name in self._trained
            }
            self._optimizer.load_state_dict(
                FullyShardedDataParallel.optim_state_dict_to_load(self._model, self._optimizer, whole)
            )

    def _whole_state(self, *, first_rank_only: bool) -> AbstractContextManager[object]:
        where = {
            "offload_to_cpu": first_rank_only and self._parts.device.kind != "cpu",
            "rank0_only": first_rank_only,
        }
        found: AbstractContextManager[object] = FullyShardedDataParallel.state_dict_type(
            self._model,
            StateDictType.FULL_STATE_DICT,
            FullStateDictConfig(**where),
            FullOptimStateDictConfig(**where),
        )
        return found

    def _groups(self, decays: Mapping[str, bool]) -> list[dict[str, Any]]:
        """Return the optimizer's groups: FSDP's shares are flat, so names say which of them were matrices."""
        parts = self._parts
        numbers = {"betas": parts.betas, "eps": parts.epsilon}
        # By the names that parameters have in the decoder.
        own = {
            name.replace("_fsdp_wrapped_module.", "").replace("_checkpoint_wrapped_module.", ""): each
            for name, each in self._model.named_parameters()
            if each.requires_grad
        }
        groups = [
            {
                "params": [each for name, each in own.items() if decays[name] is is_matrix],
                "weight_decay": decay,
            }
            for is_matrix, decay in ((True, parts.config.weight_decay), (False, 0.0))
        ]
        return [{**group, **numbers} for group in groups if group["params"]]


def sharding_strategy(parts: EngineParts) -> ShardingStrategy:
    is_hybrid, keeps = parts.layout.data > 1, parts.config.sharded_state == "optimizer"
    if is_hybrid:
        return ShardingStrategy._HYBRID_SHARD_ZERO2 if keeps else ShardingStrategy.HYBRID_SHARD
    return ShardingStrategy.SHARD_GRAD_OP if keeps else ShardingStrategy.FULL_SHARD


def _wrapped(model: nn.Module, parts: EngineParts) -> Any:
    precision = parts.device.precision
    mixed = MixedPrecision(param_dtype=precision, reduce_dtype=torch.float32, buffer_dtype=precision)
    found: Any = FullyShardedDataParallel(
        model,
        sharding_strategy=sharding_strategy(parts),
        auto_wrap_policy=ModuleWrapPolicy({DecoderLayer}),
        mixed_precision=None if precision is torch.float32 else mixed,
        device_id=parts.device.place,
        use_orig_params=True,
    )
    if parts.config.checkpoint_activations == "layer":
        apply_activation_checkpointing(found, check_fn=lambda module: isinstance(module, DecoderLayer))
    return offload_wrapper(found) if parts.config.offload_activations == "yes" else found


def build(parts: EngineParts) -> SmpEngine:
    if not isinstance(parts.model, Decoder):
        raise Refusal(
            f"engine=smp trains decoders, and not {type(parts.model).__name__}", hint="set engine=native"
        )
    layout = parts.layout
    if layout.tensor * layout.pipeline > 1 or layout.sharded == 1:
        raise Refusal(
            f"engine=smp only shards, and the layout is tensor={layout.tensor}, pipeline={layout.pipeline}, "
            f"sharded={layout.sharded}",
            hint="set tensor=1, pipeline=1 and sharded to the ranks of a group, or engine=native",
        )
    return SmpEngine(parts)
