"""Settings are read strictly and all mistakes told at once; an indivisible batch is told the nearest one."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

from slipway.containers.recipes.glue_finetune.config import decode_arguments
from slipway.containers.recipes.glue_finetune.data import plan_batch
from slipway.containers.training.layout import IndivisibleBatch
from slipway.containers.training.settings import InvalidSettings


def test_the_article_s_numbers_are_the_defaults() -> None:
    config = decode_arguments([])
    assert (config.task, config.epochs, config.learning_rate, config.max_length) == ("mrpc", 3, 2e-5, 128)
    four_nodes = plan_batch(config, nodes=4, readers=4)
    assert (plan_batch(config, nodes=1, readers=1).global_batch, four_nodes.global_batch) == (32, 4 * 32)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(InvalidSettings) as caught:
        decode_arguments(["epoch=3", "epochs=0", "seed=1", "seed=2", "backend=nccl", "words"])
    assert len(caught.value.mistakes) == 5
    assert "did you mean epochs?" in caught.value.mistakes[0]


def test_a_model_comes_from_one_place() -> None:
    with pytest.raises(InvalidSettings, match="model and start_from are both set"):
        decode_arguments(["model=bert", "start_from=bert_pretrain"])
    assert decode_arguments(["start_from=bert_pretrain"]).start_from == "bert_pretrain"


@pytest.mark.parametrize(
    "task", ["../mrpc", "/etc/passwd", "mrpc;reboot", "$(id)", "mrpc\n", "m-r-pc", "glue", "ax", ""]
)
def test_a_task_with_a_path_or_shell_in_it_is_refused_with_those_there_are(task: str) -> None:
    with pytest.raises(InvalidSettings, match=r"task is .* must be one of cola, sst2, mrpc"):
        decode_arguments([f"task={task}"])


@pytest.mark.parametrize("key", ["data", "model"])
@pytest.mark.parametrize(
    "place", ["../x", "/etc", "a//b", "http://host/x", "s3://B_/x", "file:///etc", "$(x)"]
)
def test_a_place_stays_below_its_root_or_is_in_s3(key: str, place: str) -> None:
    with pytest.raises(InvalidSettings, match=f"{key} is"):
        decode_arguments([f"{key}={place}"])
    assert getattr(decode_arguments([f"{key}=s3://bucket/prefix"]), key) == "s3://bucket/prefix"


# BI-069
@pytest.mark.parametrize("value", ["0", "0.0", "1e-99", "nan", "inf", "-1", "2"])
def test_a_rate_that_would_learn_nothing_or_everything_is_refused(value: str) -> None:
    with pytest.raises(InvalidSettings, match=r"learning_rate is .*, and must be a number from 1e-09 to 1"):
        decode_arguments([f"learning_rate={value}"])


def test_a_published_name_is_the_same_task() -> None:
    assert decode_arguments(["task=SST-2"]).identity() == decode_arguments(["task=sst2"]).identity()


@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_ranks_of_one_node_share_its_batch(world: int) -> None:
    plan = plan_batch(decode_arguments([]), nodes=1, readers=world)
    assert plan.global_batch == 32
    assert plan.micro_batch == min(16, 32 // world)


def test_a_batch_that_cannot_be_shared_says_what_can() -> None:
    with pytest.raises(IndivisibleBatch, match="set global_batch=30 or 33"):
        plan_batch(decode_arguments([]), nodes=1, readers=3)
    with pytest.raises(IndivisibleBatch, match="set micro_batch to a divisor of 32"):
        plan_batch(decode_arguments(["micro_batch=12"]), nodes=1, readers=1)
