"""SMP v2, `torch.sagemaker`: its parameters, which stand on PyTorch's FSDP and know no pipeline.

Names, defaults and limits are those of AWS's page "The SageMaker model parallel library v2 reference".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slipway.jobs.words.errors import Problem
from slipway.jobs.words.smp.parameters import (
    Rules,
    Value,
    decode_parameters,
    refuse,
    write_parameters,
    wrong_values,
)

_DEGREES = ("tensor_parallel_degree", "context_parallel_degree", "expert_parallel_degree")
_RULES = Rules(
    library="SMP v2",
    least={**dict.fromkeys(_DEGREES, 1), "hybrid_shard_degree": 0, "activation_loading_horizon": 1},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmpV2:
    """Hold the hyper-parameter `mp_parameters` of SMP v2; it checks itself when it is made."""

    hybrid_shard_degree: int = 0  # 0: as far as it goes, or as the script's FSDP says; 1: weights stay whole
    tensor_parallel_degree: int = 1
    context_parallel_degree: int = 1
    expert_parallel_degree: int = 1
    sm_activation_offloading: bool = True  # which offloads only what the script wraps
    activation_loading_horizon: int = 2
    fsdp_cache_flush_warnings: bool = True
    allow_empty_shards: bool = False
    random_seed: int | None = None  # of what tensor and expert ranks draw; None: the library's own

    def __post_init__(self) -> None:
        refuse(wrong_values(self, _RULES))
        refuse(_contradictions(self))

    @classmethod
    def decode(cls, parameters: Mapping[str, object]) -> SmpV2:
        """Decode the `parameters` of an existing notebook."""
        return decode_parameters(cls, parameters, _RULES)

    def parameters(self) -> dict[str, Value]:
        """Return what is sent: all but the library's defaults."""
        return write_parameters(self)


def _contradictions(smp: SmpV2) -> Iterator[Problem]:
    # By 0 the library finds the degree itself, which is at least that of context.
    if smp.hybrid_shard_degree and smp.context_parallel_degree > smp.hybrid_shard_degree:
        message = f"is {smp.context_parallel_degree}, above hybrid_shard_degree={smp.hybrid_shard_degree}"
        hint = f"set hybrid_shard_degree to {smp.context_parallel_degree} or more"
        yield Problem(where="context_parallel_degree", message=message, hint=hint)
