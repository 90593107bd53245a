"""Parameters, operations and memory agree with the real classes and the usual formula."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.estimate import Hardware, Layout
from slipway.jobs.estimate.fitting import fit
from slipway.jobs.estimate.hardware import cluster_of
from slipway.jobs.estimate.inputs.workloads import workload_of
from slipway.jobs.estimate.work.models import MODELS
from slipway.jobs.estimate.work.work import (
    forward_flops,
    memory,
    parameter_count,
    recomputed_flops,
    training_flops,
    usable_bytes,
)
from slipway.jobs.words.catalogue.instances import instance_type

REAL = {
    "bert-large": ("BertForPreTraining", "BertConfig", {"hidden_size": 1024, "num_hidden_layers": 24}),
    "bert-1.5b": ("BertForPreTraining", "BertConfig", {"hidden_size": 1600, "num_hidden_layers": 48}),
    "bert-tiny": ("BertForPreTraining", "BertConfig", {"hidden_size": 128, "num_hidden_layers": 2}),
    "bert-base": ("BertForPreTraining", "BertConfig", {}),
    "bert-base-cased": ("BertForSequenceClassification", "BertConfig", {"vocab_size": 28996}),
    "bert-base-uncased": ("BertForSequenceClassification", "BertConfig", {}),
    "distilbert": ("DistilBertForSequenceClassification", "DistilBertConfig", {}),
    "gpt-j-6b": ("GPTJForCausalLM", "GPTJConfig", {}),
    "gpt-j-tiny": (
        "GPTJForCausalLM",
        "GPTJConfig",
        {"n_layer": 4, "n_embd": 64, "n_head": 4, "vocab_size": 1280, "bos_token_id": 0, "eos_token_id": 0},
    ),
    "pythia-6.9b": (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        {"hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 50432},
    ),
    "gpt-neox-20b": ("GPTNeoXForCausalLM", "GPTNeoXConfig", {"vocab_size": 50432}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_a_model_has_the_parameters_of_the_class_that_trains_it(name: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    kind, config, given = REAL[name]
    model = MODELS[name]
    widths = {"num_attention_heads": model.heads, "intermediate_size": model.feed_forward}
    own = given if name in ("gpt-j-6b", "gpt-j-tiny", "distilbert") else given | widths
    with torch.device("meta"):
        real = getattr(transformers, kind)(getattr(transformers, config)(**own))
    assert sum(parameter.numel() for parameter in real.parameters()) == model.parameters


def test_every_model_shipped_is_counted_against_its_class() -> None:
    assert {name for name in MODELS if not name.endswith("-512")} == set(REAL)


# The positions, which the shape lacks, are a fiftieth of so small a model.
@pytest.mark.parametrize("name", sorted(MODELS.keys() - {"bert-tiny"}))
def test_counting_by_shape_comes_near_the_real_number(name: str) -> None:
    model = MODELS[name]
    untied = 0 if name.startswith(("bert", "distilbert")) else model.vocabulary * model.hidden_size
    counted = parameter_count(replace(model, parameters=None)) + untied
    assert counted == pytest.approx(model.parameters, rel=0.02)


@pytest.mark.parametrize(("name", "per_token"), [("bert-large", 2.04e9), ("bert-1.5b", 9.27e9)])
def test_training_flops_are_those_that_a_counter_measured(name: str, per_token: float) -> None:
    """torch's FlopCounterMode, eager attention, the vocabulary head on every position."""
    model = MODELS[name]
    everywhere = replace(model, head_share=1.0)
    transform = 3 * 2 * model.hidden_size**2  # of the masked-LM head, which belongs to no layer
    own = training_flops(everywhere) / model.sequence_length + transform
    assert own == pytest.approx(per_token, rel=0.005)


def test_a_decoder_computes_half_of_each_attention_matrix() -> None:
    model = MODELS["pythia-6.9b"]
    full = forward_flops(replace(model, causal=False))
    saved = 2.0 * model.sequence_length**2 * model.hidden_size * model.layers
    assert full - forward_flops(model) == pytest.approx(saved)


def test_adapters_cost_no_gradients_of_the_weights_that_they_leave_alone() -> None:
    model = MODELS["gpt-j-6b"]
    adapted = replace(model, trained_share=1e-3)
    assert training_flops(adapted) == pytest.approx(training_flops(model) * 2 / 3, rel=1e-3)


def test_recomputing_a_layer_costs_its_forward_pass_once_more() -> None:
    model = MODELS["pythia-6.9b"]
    again = recomputed_flops(model, Layout(micro_batch=1, checkpointing="full"))
    assert 0.95 * forward_flops(model) < again < forward_flops(model)
    assert recomputed_flops(model, Layout(micro_batch=1)) == 0


# What fits a device, and the message if something does not fit.
GIB = 2**30
GAUDI = Hardware(
    nodes=1,
    devices_per_node=8,
    peak_flops=116e12,
    memory_bytes=32 * GIB,
    intra_node_bytes_per_second=87.5e9,
    inter_node_bytes_per_second=50e9,
)
BERT = MODELS["bert-1.5b"]


def test_the_states_of_a_model_take_sixteen_bytes_a_parameter() -> None:
    """BERT-1.5B has 22.8 GiB of states, 7.8 with ZeRO-1 over eight devices."""
    plain = memory(BERT, GAUDI, Layout(micro_batch=1))
    assert (plain.weights + plain.gradients + plain.optimizer) / GIB == pytest.approx(22.8, abs=0.05)
    sharded = memory(BERT, GAUDI, Layout(micro_batch=1, sharding="zero1"))
    assert (sharded.weights + sharded.gradients + sharded.optimizer) / GIB == pytest.approx(7.8, abs=0.05)


@given(st.integers(1, 64), st.sampled_from(sorted(MODELS)))
def test_memory_falls_as_sharding_rises(nodes: int, name: str) -> None:
    cluster = replace(GAUDI, nodes=nodes)
    layouts = [Layout(micro_batch=1, sharding=sharding) for sharding in ("none", "zero1", "zero2", "zero3")]
    held = [memory(MODELS[name], cluster, layout) for layout in layouts]
    totals = [each.weights + each.gradients + each.optimizer for each in held]
    assert totals == sorted(totals, reverse=True)
    assert len(set(totals)) == len(totals)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (Layout(micro_batch=1), Layout(micro_batch=1, tensor=2)),
        (Layout(micro_batch=1, tensor=4), Layout(micro_batch=1, tensor=8)),
        (Layout(micro_batch=1), Layout(micro_batch=1, pipeline=2)),
        (Layout(micro_batch=1, pipeline=4), Layout(micro_batch=1, pipeline=8)),
    ],
)
def test_memory_falls_as_a_model_is_split_further(less: Layout, more: Layout) -> None:
    model = MODELS["pythia-6.9b"]
    assert memory(model, GAUDI, more).total < memory(model, GAUDI, less).total


def test_checkpointing_trades_activations_for_time() -> None:
    kept = memory(BERT, GAUDI, Layout(micro_batch=16))
    again = memory(BERT, GAUDI, Layout(micro_batch=16, checkpointing="full"))
    assert again.activations < kept.activations / 4


def test_a_tensor_group_that_shares_rows_keeps_no_activation_twice() -> None:
    """Korthikanti et al. 2022, table 2: all of a layer's 34 bytes a value fall with the ranks, not 24."""
    whole, cut = Layout(micro_batch=1), Layout(micro_batch=1, tensor=4)
    model, cluster = replace(MODELS["pythia-6.9b"], head_share=0.0), replace(GAUDI, has_fused_attention=True)

    def kept(layout: Layout) -> float:
        return memory(model, cluster, layout).activations

    assert kept(cut) == pytest.approx(kept(whole) * (10 + 24 / 4) / 34)
    assert kept(replace(cut, sequence_parallel=True)) == pytest.approx(kept(whole) / 4)


def test_an_early_pipeline_stage_keeps_one_micro_batch_a_stage_and_gpipe_keeps_all() -> None:
    layout = Layout(micro_batch=1, accumulation_steps=16, pipeline=8)
    ordered = memory(MODELS["gpt-neox-20b"], GAUDI, layout)
    all_kept = memory(MODELS["gpt-neox-20b"], GAUDI, replace(layout, schedule="gpipe"))
    assert all_kept.activations == pytest.approx(2 * ordered.activations)


def test_what_fits_is_said_to_fit_and_nothing_is_proposed() -> None:
    found = fit(BERT, GAUDI, Layout(micro_batch=16, accumulation_steps=24, sharding="zero1"))
    assert found.fits
    assert found.nearest is None


def test_what_does_not_fit_names_what_breaks_and_the_nearest_that_fits() -> None:
    found = fit(MODELS["gpt-neox-20b"], GAUDI, Layout(micro_batch=4, global_batch=1024))
    assert not found.fits
    assert found.memory.largest == "optimizer"
    assert found.nearest is not None
    assert found.change
    assert memory(MODELS["gpt-neox-20b"], GAUDI, found.nearest).total <= usable_bytes(GAUDI)


def test_where_nothing_fits_nothing_is_proposed() -> None:
    tiny = replace(GAUDI, devices_per_node=1, intra_node_bytes_per_second=0.0, memory_bytes=1 * GIB)
    found = fit(MODELS["gpt-neox-20b"], tiny, Layout(micro_batch=1))
    assert not found.fits
    assert found.nearest is None


def test_gradients_that_add_up_in_32_bit_are_counted_beside_the_model_s_own() -> None:
    """DeepSpeed's BF16_Optimizer holds a whole copy: 5.7 GiB of BERT-1.5B on every device."""
    layout = Layout(micro_batch=16, accumulation_steps=24, sharding="zero1")
    own = memory(BERT, GAUDI, layout)
    summed = memory(BERT, GAUDI, replace(layout, gradient_sum_bytes=4))
    assert own.total / GIB == pytest.approx(12.9, abs=0.05)
    assert (summed.total - own.total) / GIB == pytest.approx(5.7, abs=0.05)
    alone = memory(BERT, GAUDI, replace(layout, sharding="zero2", gradient_sum_bytes=4))
    assert alone.gradients == pytest.approx(summed.gradients / 8)


def test_attention_without_a_fused_kernel_keeps_its_square() -> None:
    """BERT-1.5B on 16 rows of 512 tokens then has 46 GB of activations, which no device of 32 GiB holds."""
    long = replace(BERT, sequence_length=512, head_share=0.0)
    layout = Layout(micro_batch=16, sharding="zero1")
    plain = replace(GAUDI, has_fused_attention=False)
    assert memory(long, plain, layout).activations / 1e9 == pytest.approx(46.5, abs=0.5)
    assert memory(long, GAUDI, layout).activations / 1e9 == pytest.approx(21.4, abs=0.5)
    again = memory(long, plain, replace(layout, checkpointing="selective"))  # one layer's at a time
    assert again.activations / 1e9 == pytest.approx(21.4 + (46.5 - 21.4) / 48, abs=0.1)


def test_a_node_has_as_many_workers_as_the_table_counts_ranks() -> None:
    """Neuron documentation: two NeuronCores of a Trainium1 chip, four logical ones of a Trainium2 (LNC=2)."""
    workers = {"dl1.24xlarge": 8, "trn1.32xlarge": 32, "trn2.48xlarge": 64, "p4d.24xlarge": 8}
    for name, count in workers.items():
        known, chip = cluster_of(instance_type(name), 1), instance_type(name).accelerator
        assert chip is not None
        assert known.devices_per_node == count
        assert known.memory_bytes * count == chip.memory_gib * chip.count * GIB


def test_gaudi_s_first_generation_has_no_fused_attention_and_others_have() -> None:
    assert not cluster_of(instance_type("dl1.24xlarge"), 1).has_fused_attention
    assert cluster_of(instance_type("p4d.24xlarge"), 1).has_fused_attention


def test_pre_training_is_estimated_with_the_sums_that_its_engines_hold() -> None:
    """DeepSpeed keeps the model's own gradients in addition to the sums; plain data parallelism does not."""
    sharded = workload_of("bert_pretrain", {"size": "1.5b", "zero": "1"}).layout
    assert (sharded.gradient_sum_bytes, sharded.weight_bytes, sharded.optimizer_bytes) == (4, 2, 12)
    plain = workload_of("bert_pretrain", {"size": "tiny", "zero": "0"}).layout
    assert (plain.gradient_sum_bytes, plain.weight_bytes, plain.optimizer_bytes) == (2, 2, 12)
    wide = workload_of("bert_pretrain", {"size": "tiny", "precision": "fp32"}).layout
    assert (wide.gradient_sum_bytes, wide.weight_bytes, wide.optimizer_bytes, wide.value_bytes) == (
        2,
        4,
        8,
        4,
    )
