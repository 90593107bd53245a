"""SMP's parameters check themselves, with every mistake told at once; existing notebooks are understood."""

from __future__ import annotations

import pytest

from slipway.jobs.words.smp.parameters import InvalidSmp, SmpV2
from slipway.jobs.words.smp.smp_v1 import SmpV1

# What the article names: the tensor-parallel training, and the one with a pipeline.
ARTICLE = {
    "pipeline_parallel_degree": 1,
    "tensor_parallel_degree": 8,
    "ddp": True,
    "shard_optimizer_state": True,
    "auto_partition": True,
    "fp16": True,
}
ARTICLE_PIPELINE = {
    "pipeline_parallel_degree": 2,
    "ddp": True,
    "microbatches": 8,
    "pipeline": "simple",
    "active_microbatches": 8,
    "offload_activations": True,
    "optimize": "speed",
    "placement_strategy": "spread",
}
ARTICLE_SHARDED = {"ddp": True, "sharded_data_parallel_degree": 8, "fp16": True}


@pytest.mark.parametrize("parameters", [ARTICLE, ARTICLE_PIPELINE, ARTICLE_SHARDED])
def test_every_parameter_of_the_article_is_read_and_sent_as_it_was_given(
    parameters: dict[str, object],
) -> None:
    sent = SmpV1.decode(parameters).parameters()
    assert sent.items() <= {"pipeline_parallel_degree": 1, **parameters}.items()
    assert SmpV1.decode(sent) == SmpV1.decode(parameters)


def test_the_old_name_of_the_pipelines_degree_is_understood() -> None:
    assert SmpV1.decode({"partitions": 2, "ddp": True}) == SmpV1(pipeline_parallel_degree=2, ddp=True)
    with pytest.raises(
        InvalidSmp, match=r"partitions: is 2, and pipeline_parallel_degree, its other name, is 4"
    ):
        SmpV1.decode({"pipeline_parallel_degree": 4, "partitions": 2})


def test_an_unknown_parameter_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidSmp, match=r"is no parameter of SMP v2; did you mean tensor_parallel_degree\?"):
        SmpV2.decode({"tensor_paralel_degree": 8})


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(InvalidSmp) as refused:
        SmpV1(tensor_parallel_degree=0, pipeline="fast", microbatches=True)
    assert str(refused.value).splitlines() == [
        "tensor_parallel_degree: is 0, and must be 1 or more",
        "microbatches: is True, and must be a whole number",
        "pipeline: is 'fast', and must be simple or interleaved",
    ]


@pytest.mark.parametrize(
    ("smp", "told"),
    [
        ({"tensor_parallel_degree": 8}, "tensor_parallel_degree: is 8 without ddp; set ddp=True"),
        (
            {"ddp": True, "fp16": True, "bf16": True, "sharded_data_parallel_degree": 8},
            "bf16: is True, and so is fp16",
        ),
        ({"bf16": True}, "the only way in which SMP v1 trains in bf16"),
        (
            {"ddp": True, "sharded_data_parallel_degree": 8, "shard_optimizer_state": True},
            "shard_optimizer_state: is True with sharded_data_parallel_degree=8",
        ),
        (
            {"ddp": True, "sharded_data_parallel_degree": 8, "pipeline_parallel_degree": 2},
            "pipeline_parallel_degree: is 2 with sharded_data_parallel_degree=8",
        ),
        (
            {"ddp": True, "sharded_data_parallel_degree": 4, "tensor_parallel_degree": 2},
            "set prescaled_batch=True",
        ),
        ({"pipeline": "simple", "microbatches": 8}, "set active_microbatches=8, or SMP runs the interleaved"),
        ({"active_microbatches": 3, "microbatches": 2}, "active_microbatches: is 3"),
        (
            {"pipeline_parallel_degree": 2, "offload_activations": True},
            "set microbatches and active_microbatches",
        ),
        ({"default_partition": 2, "pipeline_parallel_degree": 2}, "default_partition: is 2, of 2 partitions"),
        ({"memory_weight": 1.5}, "memory_weight: is 1.5, and must be from 0 to 1"),
    ],
)
def test_what_smp_v1_would_refuse_or_change_by_itself_is_refused_with_the_remedy(
    smp: dict[str, object], told: str
) -> None:
    with pytest.raises(InvalidSmp) as refused:
        SmpV1.decode(smp)
    assert told in str(refused.value)


def test_a_context_degree_above_the_shard_degree_is_refused() -> None:
    with pytest.raises(InvalidSmp, match="set hybrid_shard_degree to 4 or more"):
        SmpV2(hybrid_shard_degree=2, context_parallel_degree=4)
