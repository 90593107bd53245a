"""Parameters and operations, against the real classes and the formula of the field."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipway.jobs.estimate import Layout
from slipway.jobs.estimate.work.models import MODELS
from slipway.jobs.estimate.work.work import forward_flops, parameter_count, recomputed_flops, training_flops

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


# Positions, which the shape does not tell, are a fiftieth of so small a model.
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
    transform = 3 * 2 * model.hidden_size**2  # of the masked-LM head, which is not a layer's
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
