"""Our decoders compute what transformers computes, and their initial weights depend on the seed alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from slipway.containers.models.adapters import AdaptedDecoder
from slipway.containers.models.decoder import Decoder, DecoderShape, build_decoder, training_flops_per_token
from tests.packages import require

require("transformers", "the extra 'compare' is not installed")

GPTJ = DecoderShape(
    family="gptj",
    layers=3,
    hidden=48,
    heads=4,
    intermediate=96,
    vocabulary=101,
    rotary_dimensions=8,
    positions=64,
    has_head_bias=True,
    initial_spread=0.2,  # uneven scores, so that small mistakes show
)
NEOX = replace(GPTJ, family="neox", has_attention_bias=True, has_head_bias=False, gelu="none")
SHAPES: Mapping[str, DecoderShape] = {
    "gptj": GPTJ,
    "neox": NEOX,
    "neox in series": replace(NEOX, has_parallel_residual=False),
    "neox tied": replace(NEOX, is_tied=True, rotary_dimensions=12, rotary_base=500.0),
}
NEOX_NAMES: Mapping[str, str] = {
    r"^embeddings": "gpt_neox.embed_in",
    r"^norm": "gpt_neox.final_layer_norm",
    r"^head": "lm_head",
    r"^layers": "gpt_neox.layers",
    r"attention_norm": "input_layernorm",
    r"mlp_norm": "post_attention_layernorm",
    r"attention\.output": "attention.dense",
    r"mlp\.up": "mlp.dense_h_to_4h",
    r"mlp\.down": "mlp.dense_4h_to_h",
}
GPTJ_NAMES: Mapping[str, str] = {
    r"^embeddings": "transformer.wte",
    r"^norm": "transformer.ln_f",
    r"^head": "lm_head",
    r"^layers": "transformer.h",
    r"attention_norm": "ln_1",
    r"attention\.output": "attn.out_proj",
    r"mlp\.up": "mlp.fc_in",
    r"mlp\.down": "mlp.fc_out",
}


@pytest.mark.parametrize("kind", SHAPES)
def test_scores_loss_and_gradients_equal_those_of_transformers(kind: str) -> None:
    shape = SHAPES[kind]
    ours = build_decoder(shape, seed=3)
    with torch.no_grad():  # biases and norms begin equal: different values show whether they are used
        for parameter in ours.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    theirs = (_gptj if shape.family == "gptj" else _neox)(shape)
    theirs.load_state_dict(renamed(shape, dict(ours.named_parameters())), strict=not shape.is_tied)
    words = torch.randint(shape.vocabulary, (2, 17), generator=torch.Generator().manual_seed(0))
    scores, expected = ours(words), theirs(words).logits
    torch.testing.assert_close(scores, expected, rtol=2e-5, atol=2e-5)
    for found in (scores, expected):
        F.cross_entropy(found[:, :-1].flatten(0, 1), words[:, 1:].flatten()).backward()
    gradients = renamed(shape, {name: parameter.grad for name, parameter in ours.named_parameters()})
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("kind", ["gptj", "neox tied"])
def test_stages_one_after_the_other_are_the_whole_decoder(kind: str, stages: int) -> None:
    whole = build_decoder(SHAPES[kind], seed=1)
    words = torch.arange(12).view(2, 6)
    found = words
    for stage in whole.cut(stages):
        found = stage(found)
    assert torch.equal(found, whole(words))
    named = dict(whole.named_parameters())
    for stage in whole.cut(stages):
        assert all(named[name] is parameter for name, parameter in stage.named_parameters())


def test_initial_weights_follow_from_the_seed_and_not_from_the_order_of_the_draws() -> None:
    once, again, other = (build_decoder(NEOX, seed=seed) for seed in (5, 5, 6))
    torch.randn(1)
    shallow = dict(build_decoder(replace(NEOX, layers=1), seed=5).named_parameters())
    for name, parameter in once.named_parameters():
        assert torch.equal(parameter, again.get_parameter(name))
        assert torch.equal(parameter, shallow.get(name, parameter))
    head = once.get_parameter("head.weight")
    assert not torch.equal(head, other.get_parameter("head.weight"))
    assert head.std().item() == pytest.approx(0.2, rel=0.05)
    assert not once.get_parameter("layers.1.mlp.up.bias").any()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"family": "llama"}, "family='llama': it is one of gptj, neox"),
        ({"heads": 5}, "heads=5 do not divide hidden=48"),
        ({"rotary_dimensions": 7}, "rotary_dimensions=7: an even number from 2 to 12"),
        ({"rotary_dimensions": 14}, "rotary_dimensions=14: an even number from 2 to 12"),
        ({"is_tied": True}, "a tied head has no bias of its own"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(change: Mapping[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        replace(GPTJ, **change)  # type: ignore[arg-type]  # some are of a wrong kind on purpose


def _gptj(shape: DecoderShape) -> torch.nn.Module:
    import transformers  # here, not above: its models take seconds, and each worker imports all tests

    return transformers.GPTJForCausalLM(
        transformers.GPTJConfig(
            vocab_size=shape.vocabulary,
            n_positions=shape.positions,
            n_embd=shape.hidden,
            n_layer=shape.layers,
            n_head=shape.heads,
            n_inner=shape.intermediate,
            rotary_dim=shape.rotary_dimensions,
        )
    )


def _neox(shape: DecoderShape) -> torch.nn.Module:
    import transformers  # here, not above: its models take seconds, and each worker imports all tests

    return transformers.GPTNeoXForCausalLM(
        transformers.GPTNeoXConfig(
            vocab_size=shape.vocabulary,
            hidden_size=shape.hidden,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            intermediate_size=shape.intermediate,
            max_position_embeddings=shape.positions,
            rotary_pct=shape.rotary_dimensions / shape.head_width,
            rotary_emb_base=shape.rotary_base,
            use_parallel_residual=shape.has_parallel_residual,
            tie_word_embeddings=shape.is_tied,
        )
    )


def renamed(shape: DecoderShape, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    found = {}
    for name, tensor in tensors.items():
        there = name
        for ours, theirs in (GPTJ_NAMES if shape.family == "gptj" else NEOX_NAMES).items():
            there = re.sub(ours, theirs, there)
        if shape.family == "gptj" and "query_key_value" in name:
            apart = tensor.unflatten(0, (shape.heads, 3, -1)).unbind(1)
            for letter, part in zip("qkv", apart, strict=True):
                found[there.replace("attention.query_key_value", f"attn.{letter}_proj")] = part.flatten(0, 1)
        else:
            found[there] = tensor
    return found


@pytest.mark.parametrize("adapters", [False, True])
def test_flops_of_training_are_those_that_torch_counts(adapters: bool) -> None:
    """Less the input's gradient of the first layer, which nobody needs."""
    shape = replace(GPTJ, layers=16, hidden=64, intermediate=256)
    whole = AdaptedDecoder(shape, rank=1, alpha=1.0, seed=1) if adapters else Decoder(shape)
    words = torch.zeros(2, 64, dtype=torch.int64)
    with (
        FlopCounterMode(display=False) as counter,
        sdpa_kernel(SDPBackend.MATH),
    ):  # of whose kind all are counted
        whole(words).logsumexp(-1).mean().backward()
    counted = counter.get_total_flops() / words.numel()
    assert training_flops_per_token(shape, 64, is_frozen=adapters) == pytest.approx(counted, rel=0.05)
