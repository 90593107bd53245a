"""Every technique says in which modes a job can run in a pool; a few measured steps predict the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from slipway.containers.training.config import SpreadConfig, engine_mistakes
from slipway.containers.training.settings import defaults_of, kinds_of
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.evidence.measurements import our_measurements
from slipway.jobs.estimate.work.workloads import find_workload
from slipway.jobs.plan.search.model import Mode, Pool
from slipway.jobs.plan.techniques.fitted import (
    UNCHECKED_ERROR,
    MeasuredStep,
    ModelFacts,
    _features,
    _product,
    fit_steps,
)
from slipway.jobs.plan.techniques.modes import EstimatedJob, device_counts, modes
from slipway.jobs.plan.techniques.techniques import TECHNIQUES, Variant

NODE = Pool(type="p4d.24xlarge", nodes=2, devices_per_node=8, price_per_hour=30.0)
LARGE = find_workload("bert-large-512")
SMALL_STEPS = replace(LARGE, layout=replace(LARGE.layout, global_batch=512))  # which GPipe can hold
BERT = EstimatedJob(workload=SMALL_STEPS, rows=our_measurements())


def variants(ranks: int, on_a_node: int) -> Iterator[tuple[str, Variant]]:
    """Yield every variant of every technique on so many ranks, with its technique's name."""
    for name, technique in TECHNIQUES.items():
        for variant in technique(ranks, on_a_node):
            yield name, variant


def found(job: EstimatedJob, pool: Pool = NODE) -> list[Mode]:
    return list(modes(job, pool))


@pytest.mark.parametrize(("ranks", "on_a_node"), [(1, 1), (2, 2), (4, 4), (8, 8), (16, 8)])
def test_every_variant_sets_what_a_recipe_takes_and_has_a_name_of_its_own(ranks: int, on_a_node: int) -> None:
    listed = [variant for _, variant in variants(ranks, on_a_node)]
    assert len({variant.name for variant in listed}) == len(listed)
    for variant in listed:
        asked = {name: kinds_of(SpreadConfig)[name].read(text) for name, text in variant.settings.items()}
        assert None not in asked.values()
        values = {**defaults_of(SpreadConfig), "precision": "bf16", "optimizer": "adamw", **asked}
        assert list(engine_mistakes(values)) == []


def test_products_stay_within_a_node() -> None:
    names = {variant.name for name, variant in variants(8, 8) if name == "product"}
    assert {"tensor 2 × fsdp 4", "tensor 4 × pipeline 2"} <= names
    degrees = {variant.settings.get("tensor", "1") for _, variant in variants(16, 8)}
    assert degrees == {"1", "2", "4", "8"}


def test_one_device_has_no_one_to_share_with() -> None:
    assert [variant.name for _, variant in variants(1, 1)] == ["data", "spilled"]


def test_a_job_has_modes_of_every_technique_that_divides_its_batch() -> None:
    words = {mode.technique.split()[0] for mode in found(BERT)}
    assert words == {"data", "zero", "fsdp", "gpipe", "interleaved", "tensor", "spilled"}
    assert {mode.devices for mode in found(BERT)} == {1, 2, 4, 8, 16}


def test_a_model_that_fits_no_single_device_gets_no_mode_there() -> None:
    neox = EstimatedJob(workload=find_workload("gpt-neox-20b"), rows=our_measurements())
    pool = replace(NODE, nodes=4)
    assert min(mode.devices for mode in found(neox, pool)) > 1
    assert "data" not in {mode.technique for mode in found(neox, pool)}


def test_a_mode_says_what_its_technique_sets_and_how_far_to_trust_it() -> None:
    mode = next(mode for mode in found(BERT) if mode.technique == "fsdp" and mode.devices == 8)
    assert dict(mode.settings) == {"engine": "native", "sharded": "8"}
    assert mode.source == "estimated"
    assert mode.error > 0


def test_a_setting_that_the_recipe_does_not_take_rules_a_technique_out() -> None:
    picky = replace(BERT, accepts=lambda settings: "tensor" not in settings)
    assert not any("tensor" in mode.technique for mode in found(picky))


def test_a_job_without_an_end_is_refused() -> None:
    endless = EstimatedJob(workload=find_workload("gpt-j-6b"), rows=our_measurements())
    with pytest.raises(CannotEstimate, match="has no end"):
        found(endless, replace(NODE, nodes=4))


def test_a_pool_offers_powers_of_two_and_all_of_a_node_then_whole_nodes() -> None:
    assert device_counts(replace(NODE, nodes=5, devices_per_node=6)) == [1, 2, 4, 6, 12, 24, 30]
    assert device_counts(replace(NODE, spans_nodes=False)) == [1, 2, 4, 8]


# A few measured steps predict the others, with a range.
TRUE = (0.003, 2.0, 5.0)  # the time that this machine really takes


def facts(rows: int) -> ModelFacts:
    return ModelFacts(parameters=50_000_000, layers=8, widest=512, rows=rows)


def variant(technique: str, devices: int) -> Variant:
    return next(iter(TECHNIQUES[technique](devices, devices)))


def seconds(technique: str, rows: int, devices: int, *, slower: float = 1.0) -> float:
    features = _features(facts(rows), variant(technique, devices), devices)
    assert features is not None, "it can be split so"
    return _product(TRUE, features) * slower


def measured(technique: str, rows: int, devices: int, *, slower: float = 1.0) -> MeasuredStep:
    return MeasuredStep(
        kind="decoder",
        facts=facts(rows),
        technique=technique,
        variant=variant(technique, devices),
        devices=devices,
        seconds=seconds(technique, rows, devices, slower=slower),
    )


FEW = [measured("data", 8, 1), measured("data", 64, 1), measured("data", 64, 8), measured("fsdp", 64, 8)]


@pytest.mark.parametrize(("rows", "devices"), [(16, 1), (32, 2), (64, 4), (8, 8)])
def test_sizes_that_nobody_measured_follow_from_a_few(rows: int, devices: int) -> None:
    told = fit_steps(FEW).seconds("decoder", facts(rows), variant("data", devices), devices, "data")
    assert told == pytest.approx(seconds("data", rows, devices), rel=0.05)


def test_a_technique_that_was_slow_once_is_expected_to_be_slow_at_other_sizes() -> None:
    slow = [*FEW, measured("gpipe", 64, 8, slower=3.0)]
    told = fit_steps(slow).seconds("decoder", facts(64), variant("gpipe", 4), 4, "gpipe")
    other = fit_steps(slow).seconds("encoder", facts(64), variant("gpipe", 4), 4, "gpipe")
    assert told is not None
    assert other is not None
    assert told > 1.2 * other


def test_what_was_left_out_says_how_far_to_trust_the_rest() -> None:
    assert fit_steps(FEW).error < 0.5
    assert fit_steps(FEW[:2]).error == UNCHECKED_ERROR


def test_a_split_that_cannot_be_is_not_told() -> None:
    narrow = ModelFacts(parameters=100, layers=2, widest=7, rows=8)
    assert fit_steps(FEW).seconds("decoder", narrow, variant("gpipe", 8), 8, "gpipe") is None
    assert fit_steps(FEW).seconds("decoder", narrow, variant("tensor", 2), 2, "tensor") is None


def test_nothing_measured_still_gives_an_answer_with_a_wide_error() -> None:
    assert fit_steps([]).error == UNCHECKED_ERROR
