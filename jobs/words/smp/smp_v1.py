"""SMP v1, `smdistributed.modelparallel`: its PyTorch parameters, which end with release 1.15 and PyTorch 2.0.

Names, defaults and limits are those of aws/sagemaker-python-sdk, smd_model_parallel_general.rst, and of AWS's
page "Sharded Data Parallelism". Options in the training script (checkpoints of activations, the device that
traces the model) are no parameters. Also translates to SMP v2 and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

from slipway.jobs.words.errors import Problem
from slipway.jobs.words.smp.parameters import (
    Rules,
    SmpV2,
    Value,
    decode_parameters,
    refuse,
    refuse_without_equal,
    write_parameters,
    wrong_values,
)

# The library's names of two orders; the last letter is the dimension whose ranks are neighbours.
PLACEMENTS = {"cluster": "DPT", "spread": "TPD"}
_EXTRA_IN_FLIGHT = 2  # micro-batches between forward and backward by default, besides one for each partition

_RULES = Rules(
    library="SMP v1",
    least={
        **dict.fromkeys(
            ("pipeline_parallel_degree", "tensor_parallel_degree", "sharded_data_parallel_degree"), 1
        ),
        **dict.fromkeys(("microbatches", "active_microbatches", "activation_loading_horizon"), 1),
        **dict.fromkeys(("default_partition", "ddp_port", "sdp_reduce_bucket_size"), 0),
        **dict.fromkeys(("sdp_param_persistence_threshold", "sdp_max_live_parameters"), 0),
    },
    words={
        "pipeline": ("simple", "interleaved"),
        "optimize": ("speed", "memory"),
        "placement_strategy": (*PLACEMENTS, *map("".join, permutations("DPT"))),
    },
    aliases={"partitions": "pipeline_parallel_degree"},  # its only name before release 1.6, and TensorFlow's
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmpV1:
    """Hold `distribution["smdistributed"]["modelparallel"]["parameters"]`, checked when it is made."""

    pipeline_parallel_degree: int = 1
    tensor_parallel_degree: int = 1
    sharded_data_parallel_degree: int = 1
    ddp: bool = False
    microbatches: int = 1
    active_microbatches: int | None = None  # None: two more than partitions, or all
    pipeline: str = "interleaved"
    optimize: str = "memory"
    memory_weight: float | int | None = None  # None: 0.8, or 0.2 with optimize="speed"
    placement_strategy: str = "cluster"
    auto_partition: bool = True
    default_partition: int = 0
    shard_optimizer_state: bool = False
    prescaled_batch: bool = False
    fp16: bool = False
    fp16_params: bool = False
    bf16: bool = False
    offload_activations: bool = False
    activation_loading_horizon: int = 4
    skip_tracing: bool = False
    deterministic_server: bool = False
    ddp_port: int | None = None
    ddp_dist_backend: str | None = None
    sdp_reduce_bucket_size: int = 500_000_000
    sdp_param_persistence_threshold: int = 1_000_000
    sdp_max_live_parameters: int = 1_000_000_000
    sdp_hierarchical_allgather: bool = True
    sdp_gradient_clipping: float | int = 1.0

    def __post_init__(self) -> None:
        refuse(wrong_values(self, _RULES))
        refuse(_contradictions(self))

    @classmethod
    def decode(cls, parameters: Mapping[str, object]) -> SmpV1:
        """Decode the `parameters` of an existing notebook, with `partitions` as another name."""
        return decode_parameters(cls, parameters, _RULES)

    @property
    def in_flight(self) -> int:
        """Return how many micro-batches may be between forward and backward at once."""
        most = self.pipeline_parallel_degree + _EXTRA_IN_FLIGHT
        return self.active_microbatches or min(most, self.microbatches)

    def parameters(self) -> dict[str, Value]:
        """Return what is sent: the degree of the pipeline, which is required, and all but the defaults."""
        sent = {"pipeline_parallel_degree": self.pipeline_parallel_degree, **write_parameters(self)}
        if not self.auto_partition:
            # SageMaker's SDK asks for the default partition, and reads the degree for it by its old name.
            sent |= {"default_partition": self.default_partition, "partitions": self.pipeline_parallel_degree}
        return sent


def _contradictions(smp: SmpV1) -> Iterator[Problem]:
    for name in ("tensor_parallel_degree", "sharded_data_parallel_degree"):
        if getattr(smp, name) > 1 and not smp.ddp:
            yield Problem(where=name, message=f"is {getattr(smp, name)} without ddp", hint="set ddp=True")
    if smp.fp16 and smp.bf16:
        yield Problem(where="bf16", message="is True, and so is fp16", hint="set one of them")
    if smp.memory_weight is not None and not 0 <= smp.memory_weight <= 1:
        message = f"is {smp.memory_weight}, and must be from 0 to 1"
        yield Problem(where="memory_weight", message=message, hint="0 balances time only, and 1 memory only")
    yield from _sharding_contradictions(smp)
    yield from _pipeline_contradictions(smp)


def _sharding_contradictions(smp: SmpV1) -> Iterator[Problem]:
    """Yield what AWS's page "Sharded Data Parallelism" rules out."""
    degree = smp.sharded_data_parallel_degree
    if degree == 1:
        if smp.bf16:
            message = "is True without sharded data parallelism, the only way in which SMP v1 trains in bf16"
            hint = "set sharded_data_parallel_degree above 1, or fp16=True"
            yield Problem(where="bf16", message=message, hint=hint)
        return
    for name, nothing in (("pipeline_parallel_degree", 1), ("shard_optimizer_state", False)):
        if getattr(smp, name) != nothing:
            message = (
                f"is {getattr(smp, name)} with sharded_data_parallel_degree={degree}: SMP v1 does one of them"
            )
            yield Problem(where=name, message=message, hint=f"set {name}={nothing}")
    if smp.tensor_parallel_degree > 1 and not smp.prescaled_batch:
        message = "is False with sharded data and tensor parallelism, whose tensor groups read the same rows"
        yield Problem(where="prescaled_batch", message=message, hint="set prescaled_batch=True")


def _pipeline_contradictions(smp: SmpV1) -> Iterator[Problem]:
    degree = smp.pipeline_parallel_degree
    if smp.default_partition >= degree:
        message = f"is {smp.default_partition}, of {degree} partitions counted from 0"
        yield Problem(where="default_partition", message=message, hint=f"set at most {degree - 1}")
    if smp.in_flight > smp.microbatches:
        message = f"is {smp.active_microbatches}, and a step has {smp.microbatches} micro-batches"
        yield Problem(where="active_microbatches", message=message, hint=f"set at most {smp.microbatches}")
    if smp.pipeline == "simple" and smp.in_flight != smp.microbatches:
        # The library logs a line about it, and trains with the other schedule.
        message = f"is 'simple' with {smp.in_flight} of {smp.microbatches} micro-batches active"
        hint = f"set active_microbatches={smp.microbatches}, or SMP runs the interleaved schedule"
        yield Problem(where="pipeline", message=message, hint=hint)
    if smp.offload_activations and degree > 1 and smp.in_flight == 1:
        message = "is True in a pipeline with one micro-batch active: nothing runs while activations move"
        hint = "set microbatches and active_microbatches to 2 or more"
        yield Problem(where="offload_activations", message=message, hint=hint)


# SMP v1 as SMP v2, and back: parameters with an equivalent are translated, others refused with what to do.
# Some of v1's parameters become lines of the training script with v2: they are returned as text.
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
    """Hold SMP v1's parameters as SMP v2's, and what the training script has to do now."""

    smp: SmpV2
    in_script: tuple[str, ...]


def to_smp_v2(smp: SmpV1) -> TranslatedSmp:
    """Translate; raise NoEqual with every parameter that SMP v2 cannot do."""
    refuse_without_equal(smp, _NOT_IN_V2, "SMP v2")
    return TranslatedSmp(
        smp=SmpV2(
            # 0: over all ranks. FSDP divides the optimizer's state as it divides weights.
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


Smp = SmpV1 | SmpV2
PARAMETERS = "mp_parameters"  # the hyperparameter from which SageMaker's toolkit reads them, as JSON


def distribution(smp: Smp, processes_per_host: int) -> dict[str, Mapping[str, object]]:
    """Return the argument `distribution` for estimators of SageMaker's SDK v2."""
    library = {"modelparallel": {"enabled": True, "parameters": smp.parameters()}}
    if isinstance(smp, SmpV2):
        return {"torch_distributed": {"enabled": True}, "smdistributed": library}
    return {"smdistributed": library, "mpi": {"enabled": True, "processes_per_host": processes_per_host}}
