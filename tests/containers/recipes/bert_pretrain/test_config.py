"""Settings are read strictly and all mistakes told at once; an indivisible batch is told the nearest one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.recipes.bert_pretrain import config as recipe
from slipway.containers.recipes.bert_pretrain.config import (
    BY_SIZE,
    PEAKS,
    BertConfig,
    decode,
    decode_arguments,
    plan_batch,
)
from slipway.containers.training.layout import IndivisibleBatch
from slipway.containers.training.settings import InvalidSettings, kinds_of


def test_the_article_s_numbers_are_the_defaults_of_its_model() -> None:
    config = decode({"size": "1.5b"})
    eight_nodes, sixteen_nodes = plan_batch(config, 64), plan_batch(config, 128)
    assert (config.micro_batch, config.accumulation_steps, config.zero) == (16, 24, 1)
    assert PEAKS["1.5b", 1].at(eight_nodes.global_batch) == pytest.approx(0.0015)
    assert PEAKS["1.5b", 1].at(sixteen_nodes.global_batch) == pytest.approx(0.003)


def test_the_article_s_model_trains_as_habana_s_own_script_does() -> None:
    config = decode({"size": "1.5b"})
    assert (config.optimizer, config.zero, config.schedule) == ("lans", 1, "habana")
    assert (config.warmup_share, config.constant_share, config.decay_power) == (0.05, 0.25, 1.0)


def test_large_trains_with_nvidia_s_schedule() -> None:
    assert decode({"size": "large"}).schedule == "nvidia"


@pytest.mark.parametrize("optimizer", ["adamw", "lamb"])
def test_a_rate_published_for_one_optimizer_is_not_taken_for_another(optimizer: str) -> None:
    asked = {"size": "1.5b", "zero": "0", "optimizer": optimizer}
    with pytest.raises(InvalidSettings, match=r"is for lans; set learning_rate, or optimizer=lans"):
        decode(asked)
    assert decode({**asked, "learning_rate": "0.0001"}).learning_rate == 0.0001


@pytest.mark.parametrize("nodes", [1, 8, 16])
def test_a_training_sees_as_many_sequences_on_any_number_of_nodes(nodes: int) -> None:
    config = decode({"size": "1.5b"})
    batch = plan_batch(config, 8 * nodes).global_batch
    assert config.sequences == 6900 * 24_576
    assert 0 <= config.steps_of(batch) * batch - config.sequences < batch


def test_steps_that_were_asked_for_are_the_steps() -> None:
    assert decode({"size": "1.5b", "steps": "12"}).steps_of(24_576) == 12
    assert decode({"sequences": "100"}).steps_of(32) == 4


def test_lans_under_zero_does_not_resume_without() -> None:
    assert decode({"size": "1.5b"}).identity()["zero"] == 1
    assert "zero" not in decode({"size": "tiny"}).identity()


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(InvalidSettings) as caught:
        decode_arguments(["mirco_batch=8", "steps=many", "zero=4", "seed=1", "seed=2", "just words"])
    told = caught.value.mistakes
    assert len(told) == 5
    assert any("did you mean micro_batch?" in mistake for mistake in told)
    assert any("steps is 'many', and must be a whole number" in mistake for mistake in told)
    assert any("seed is set twice" in mistake for mistake in told)


@pytest.mark.parametrize(
    "value", ["", " 8", "8 ", "+8", "8.0", "1e1", "٨", "8;reboot", "0x8", "-1", "9" * 5000]
)
def test_a_number_is_digits_and_nothing_else(value: str) -> None:
    with pytest.raises(InvalidSettings, match="micro_batch is"):
        decode({"micro_batch": value})


@pytest.mark.parametrize(
    "value", ["nan", ".nan", ".inf", "-inf", "inf", "-1", "1_0", "1e999", "1,5", "٠.١", "0x1p-2", "2"]
)
def test_a_rate_is_a_plain_decimal(value: str) -> None:
    with pytest.raises(InvalidSettings, match="learning_rate is"):
        decode({"learning_rate": value})


# BI-069
@pytest.mark.parametrize("value", ["0", "0.0", "0e5", "1e-99", "0.00000000001"])
def test_a_rate_that_would_train_for_hours_and_learn_nothing_is_refused(value: str) -> None:
    with pytest.raises(InvalidSettings, match=r"learning_rate is .*, and must be a number from 1e-09 to 1"):
        decode({"learning_rate": value})


@pytest.mark.parametrize("path", ["../other", "/etc", "a//b", "a/../b", ".", "a\nb", "a/./b", "$(x)"])
def test_a_dataset_stays_below_its_root(path: str) -> None:
    with pytest.raises(InvalidSettings, match="dataset is"):
        decode({"dataset": path})


def test_lamb_with_zero_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidSettings, match=r"trust ratio per tensor.*set zero=0, or optimizer=lans"):
        decode({"size": "large", "zero": "1"})


@pytest.mark.parametrize(
    "settings",
    [
        {"engine": "plain", "zero": "1"},
        {"engine": "deepspeed", "zero": "0", "precision": "bf16"},
        {"on_nan": "skip", "zero": "1"},
        {"global_batch": "64", "accumulation_steps": "2"},
        {"steps": "64", "sequences": "640"},
        {"warmup_share": "0.6", "constant_share": "0.5"},
        {"schedule": "nvidia", "constant_share": "0.5"},
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidSettings, match="; set "):
        decode(settings)


def test_fewer_than_two_checkpoints_cannot_be_kept() -> None:
    with pytest.raises(InvalidSettings, match="keep is '0', and must be a whole number from 2"):
        decode({"keep": "0"})


def test_a_global_batch_that_cannot_be_shared_names_the_nearest_that_can() -> None:
    with pytest.raises(IndivisibleBatch, match="set global_batch=96 or 120"):
        plan_batch(decode({"global_batch": "100", "micro_batch": "3"}), 8)
    with pytest.raises(IndivisibleBatch, match="set global_batch=32, "):
        plan_batch(decode({"global_batch": "5", "micro_batch": "8"}), 4)


@given(micro_batch=st.integers(1, 64), each=st.integers(1, 64), world=st.sampled_from([1, 2, 4, 8]))
def test_ranks_share_the_micro_batches_of_a_step_exactly(micro_batch: int, each: int, world: int) -> None:
    size = micro_batch * each * 8
    plan = plan_batch(decode({"micro_batch": str(micro_batch), "global_batch": str(size)}), world)
    numbers = [
        plan.number(3, rank, position) for rank in range(world) for position in range(plan.accumulation_steps)
    ]
    assert numbers == list(range(3 * each * 8, 4 * each * 8))
    assert plan.global_batch == size


@given(
    st.lists(
        st.text(max_size=30) | st.sampled_from(list(kinds_of(BertConfig))).map(lambda key: f"{key}=1"),
        max_size=6,
    )
)
def test_whatever_is_set_there_is_a_config_or_one_refusal(arguments: list[str]) -> None:
    try:
        answer: BertConfig | InvalidSettings = decode_arguments(arguments)
    except InvalidSettings as refusal:
        answer = refusal
    assert isinstance(answer, BertConfig) or (answer.mistakes and str(answer).isascii())


@pytest.mark.parametrize("size", BY_SIZE)
@pytest.mark.parametrize("phase", ["1", "2"])
def test_every_size_and_phase_has_defaults_that_hold(size: str, phase: str) -> None:
    config = decode({"size": size, "phase": phase})
    assert (config.size, config.phase) in PEAKS
    assert config.size in recipe.SIZES
