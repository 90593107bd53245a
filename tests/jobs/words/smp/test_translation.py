"""SMP v1 is translated to v2 and back: settings with an equivalent are mapped, others refused with advice."""

from __future__ import annotations

import pytest

from slipway.jobs.words.smp.parameters import NoEqual, SmpV2
from slipway.jobs.words.smp.smp_v1 import SmpV1, to_smp_v1, to_smp_v2


def test_the_articles_training_becomes_smp_v2_with_what_the_script_does_now() -> None:
    article = SmpV1(ddp=True, tensor_parallel_degree=8, shard_optimizer_state=True, fp16=True)
    translated = to_smp_v2(article)
    assert translated.smp.parameters() == {"tensor_parallel_degree": 8, "sm_activation_offloading": False}
    assert [line.split(":")[0] for line in translated.in_script] == [
        "wrap the model",
        "wrap the model in FSDP with ShardingStrategy.SHARD_GRAD_OP or FULL_SHARD",
        "fp16",
    ]


def test_sharded_data_parallelism_keeps_its_degree_and_its_clipping() -> None:
    translated = to_smp_v2(
        SmpV1(ddp=True, sharded_data_parallel_degree=16, bf16=True, offload_activations=True)
    )
    assert translated.smp == SmpV2(hybrid_shard_degree=16, sm_activation_offloading=True)
    assert translated.in_script[-1] == "clip gradients before each step: model.clip_grad_norm_(1)"


def test_plain_data_parallelism_stays_so() -> None:
    assert to_smp_v2(SmpV1(ddp=True)).smp.hybrid_shard_degree == 1
    assert to_smp_v1(SmpV2(hybrid_shard_degree=1)) == SmpV1(ddp=True)


@pytest.mark.parametrize(
    ("smp", "name", "instead"),
    [
        (SmpV1(pipeline_parallel_degree=2), "pipeline_parallel_degree", "raise tensor_parallel_degree"),
        (SmpV1(microbatches=4), "microbatches", "accumulate gradients in the training script"),
        (SmpV1(placement_strategy="spread"), "placement_strategy", "ranks of a tensor group are neighbours"),
        (SmpV1(activation_loading_horizon=2), "activation_loading_horizon", "which counts layers"),
        (SmpV1(sdp_max_live_parameters=1), "sdp_max_live_parameters", "FSDP"),
    ],
)
def test_what_smp_v2_lacks_is_refused_with_the_alternative(smp: SmpV1, name: str, instead: str) -> None:
    with pytest.raises(NoEqual) as refused:
        to_smp_v2(smp)
    assert str(refused.value).startswith(f"{name}: is ")
    assert "has no equal in SMP v2" in str(refused.value)
    assert instead in str(refused.value)


def test_all_that_has_no_equal_is_told_at_once() -> None:
    with pytest.raises(NoEqual) as refused:
        to_smp_v2(SmpV1(pipeline_parallel_degree=2, microbatches=4, placement_strategy="spread"))
    assert [problem.where for problem in refused.value.problems] == [
        "pipeline_parallel_degree",
        "microbatches",
        "placement_strategy",
    ]


def test_what_smp_v1_lacks_is_refused_with_the_alternative() -> None:
    with pytest.raises(NoEqual, match=r"context_parallel_degree: is 2.*raise tensor_parallel_degree"):
        to_smp_v1(SmpV2(context_parallel_degree=2))


@pytest.mark.parametrize(
    "smp",
    [
        SmpV1(ddp=True, tensor_parallel_degree=8, prescaled_batch=True, shard_optimizer_state=True),
        SmpV1(ddp=True, sharded_data_parallel_degree=4, tensor_parallel_degree=4, prescaled_batch=True),
    ],
)
def test_what_both_have_goes_there_and_back(smp: SmpV1) -> None:
    assert to_smp_v1(to_smp_v2(smp).smp) == smp
