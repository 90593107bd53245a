"""SMP v1 said as SMP v2, and back: what has an equal is mapped, and what has none is refused with what to do.

Some of v1's parameters are lines of the training script with v2. They come beside the translation, as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slipway.jobs.words.smp.parameters import refuse_without_equal
from slipway.jobs.words.smp.smp_v1 import SmpV1
from slipway.jobs.words.smp.smp_v2 import SmpV2

_PIPELINE_ENGINE = (
    "leave it out and raise tensor_parallel_degree or sharded_data_parallel_degree, or train with our own "
    "engine: pipeline is a setting of recipes"
)
_BUCKETS = "leave it out: PyTorch's FSDP, under SMP v2, decides by itself how it moves weights"
_NOT_IN_V2: Mapping[str, str] = {
    "pipeline_parallel_degree": _PIPELINE_ENGINE,
    "microbatches": "leave it out and accumulate gradients in the training script, with FSDP's no_sync()",
    "active_microbatches": "leave it out: without a pipeline one micro-batch is active at once",
    "pipeline": "leave it out: SMP v2 has no pipeline, and so no schedule",
    "placement_strategy": "leave it out: with SMP v2 ranks of a tensor group are neighbours",
    "optimize": "leave it out: SMP v2 cuts layers in one way, Transformer Engine's",
    "memory_weight": "leave it out: it balances the stages of a pipeline",
    "auto_partition": "leave it out: it cuts a model into the stages of a pipeline",
    "default_partition": "leave it out: it is the number of a stage of a pipeline",
    "activation_loading_horizon": "leave it out, and set SmpV2's, which counts layers and not pipeline tasks",
    "ddp_port": "leave it out: torchrun chooses the port",
    "ddp_dist_backend": "leave it out: the script says init_process_group(backend='smddp'), or 'nccl'",
    "sdp_reduce_bucket_size": _BUCKETS,
    "sdp_param_persistence_threshold": _BUCKETS,
    "sdp_max_live_parameters": _BUCKETS,
    "sdp_hierarchical_allgather": _BUCKETS,
}
_NOT_IN_V1: Mapping[str, str] = {
    "context_parallel_degree": "leave it out and raise tensor_parallel_degree: SMP v1 cuts no sequences",
    "expert_parallel_degree": "leave it out: SMP v1 has no mixture of experts",
    "allow_empty_shards": "leave it out: SMP v1 does not cut with FSDP",
    "fsdp_cache_flush_warnings": "leave it out: SMP v1 does not cut with FSDP",
    "random_seed": "leave it out, and seed in the training script",
    "activation_loading_horizon": "leave it out, and set SmpV1's, which counts pipeline tasks and not layers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedSmp:
    """Hold what SMP v1's parameters are with SMP v2, and what the training script has to do now."""

    smp: SmpV2
    in_script: tuple[str, ...]


def to_smp_v2(smp: SmpV1) -> TranslatedSmp:
    """Translate; raise NoEqual with every parameter that SMP v2 cannot do."""
    refuse_without_equal(smp, _NOT_IN_V2, "SMP v2")
    return TranslatedSmp(
        smp=SmpV2(
            # 0: over all ranks that there are. FSDP cuts the optimizer's state as it cuts weights.
            hybrid_shard_degree=0 if smp.shard_optimizer_state else smp.sharded_data_parallel_degree,
            tensor_parallel_degree=smp.tensor_parallel_degree,
            sm_activation_offloading=smp.offload_activations,
        ),
        in_script=tuple(_in_script(smp)),
    )


def to_smp_v1(smp: SmpV2) -> SmpV1:
    """Translate; raise NoEqual with every parameter that SMP v1 cannot do.

    Nothing is offloaded: with SMP v2 the script decides that, and sm_activation_offloading only says how.
    """
    refuse_without_equal(smp, _NOT_IN_V1, "SMP v1")
    return SmpV1(
        ddp=True,
        shard_optimizer_state=smp.hybrid_shard_degree == 0,
        sharded_data_parallel_degree=max(1, smp.hybrid_shard_degree),
        tensor_parallel_degree=smp.tensor_parallel_degree,
        prescaled_batch=smp.tensor_parallel_degree > 1,
    )


def _in_script(smp: SmpV1) -> Iterator[str]:
    if smp.tensor_parallel_degree > 1:
        yield "wrap the model: torch.sagemaker.transform(model); ranks of a tensor group read the same rows"
    if smp.shard_optimizer_state:
        yield "wrap the model in FSDP with ShardingStrategy.SHARD_GRAD_OP or FULL_SHARD"
    if smp.fp16 or smp.fp16_params:
        yield "fp16: FSDP(mixed_precision=MixedPrecision(param_dtype=torch.float16)), with ShardedGradScaler"
    if smp.bf16:
        yield "bf16: FSDP(mixed_precision=MixedPrecision(param_dtype=torch.bfloat16))"
    if smp.offload_activations:
        yield "offload_activations: wrap checkpointed layers in torch's offload_wrapper"
    if smp.sharded_data_parallel_degree > 1:
        yield f"clip gradients before each step: model.clip_grad_norm_({smp.sdp_gradient_clipping:g})"
