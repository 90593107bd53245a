"""SMP v1, `smdistributed.modelparallel`: its PyTorch parameters, which end with release 1.15 and PyTorch 2.0.

Names, defaults and limits are those of aws/sagemaker-python-sdk, smd_model_parallel_general.rst, and of AWS's
page "Sharded Data Parallelism". What the library takes in the training script instead (checkpoints of
activations, the device that traces the model) is no parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

from slipway.jobs.words.errors import Problem
from slipway.jobs.words.smp.parameters import (
    Rules,
    Value,
    decode_parameters,
    refuse,
    write_parameters,
    wrong_values,
)

# Words of the library for the two orders that have one. The last letter is of ranks that are neighbours.
PLACEMENTS = {"cluster": "DPT", "spread": "TPD"}
_EXTRA_IN_FLIGHT = 2  # micro-batches between forward and backward by default, beside one a partition

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
    active_microbatches: int | None = None  # None: two more than partitions, or all there are
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
        """Decode the `parameters` of an existing notebook; `partitions` is understood."""
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
            # SageMaker's SDK asks for the default partition, and for it reads the degree by its old name.
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
        # The library says so in a line of its log, and trains with the other schedule.
        message = f"is 'simple' with {smp.in_flight} of {smp.microbatches} micro-batches active"
        hint = f"set active_microbatches={smp.microbatches}, or SMP runs the interleaved schedule"
        yield Problem(where="pipeline", message=message, hint=hint)
    if smp.offload_activations and degree > 1 and smp.in_flight == 1:
        message = "is True in a pipeline with one micro-batch active: nothing runs while activations move"
        hint = "set microbatches and active_microbatches to 2 or more"
        yield Problem(where="offload_activations", message=message, hint=hint)
