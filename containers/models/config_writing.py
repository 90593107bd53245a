"""The config.json of a model of ours, as transformers reads it. Another family is one row of WRITERS."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slipway.containers.models.decoder import DecoderShape
from slipway.containers.models.encoder import INITIAL_SPREAD
from slipway.containers.models.names import Shape
from slipway.containers.models.shapes import EncoderShape

_ACTIVATIONS: Mapping[str, str] = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}
_GELU: Mapping[str, str] = {"none": "gelu", "tanh": "gelu_new"}


def config_of(shape: Shape, architecture: str) -> dict[str, object]:
    """Return config.json for a model of this shape, loaded by transformers' class `architecture`."""
    config = WRITERS[shape.family](shape)
    return {
        "architectures": [architecture],
        "vocab_size": shape.vocabulary,
        "torch_dtype": "float32",
        **config,
    }


def _bert(shape: EncoderShape) -> dict[str, object]:
    return {
        "model_type": "bert",
        "hidden_act": _ACTIVATIONS[shape.activation],
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": shape.positions,
        "type_vocab_size": shape.segments,
        "hidden_dropout_prob": shape.dropout,
        "attention_probs_dropout_prob": shape.attention_dropout,
        "layer_norm_eps": shape.norm_epsilon,
        "initializer_range": INITIAL_SPREAD,
        "pad_token_id": 0,
    }


def _distilbert(shape: EncoderShape) -> dict[str, object]:
    return {
        "model_type": "distilbert",
        "activation": _ACTIVATIONS[shape.activation],
        "dim": shape.hidden,
        "n_layers": shape.layers,
        "n_heads": shape.heads,
        "hidden_dim": shape.intermediate,
        "max_position_embeddings": shape.positions,
        "dropout": shape.dropout,
        "attention_dropout": shape.attention_dropout,
        "seq_classif_dropout": shape.head_dropout,
        "initializer_range": INITIAL_SPREAD,
        "pad_token_id": 0,
    }


def _gptj(shape: DecoderShape) -> dict[str, object]:
    return {
        "model_type": "gptj",
        "activation_function": _GELU[shape.gelu],
        "n_embd": shape.hidden,
        "n_layer": shape.layers,
        "n_head": shape.heads,
        "n_inner": shape.intermediate,
        "n_positions": shape.positions,
        "rotary_dim": shape.rotary_dimensions,
        "resid_pdrop": shape.dropout,
        "embd_pdrop": shape.dropout,
        "attn_pdrop": shape.attention_dropout,
        "layer_norm_epsilon": shape.norm_epsilon,
        "initializer_range": shape.initial_spread,
        "tie_word_embeddings": shape.is_tied,
    }


def _neox(shape: DecoderShape) -> dict[str, object]:
    return {
        "model_type": "gpt_neox",
        "hidden_act": _GELU[shape.gelu],
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": shape.positions,
        # The keys of before transformers 5, which it still reads.
        "rotary_pct": shape.rotary_dimensions / shape.head_width,
        "rotary_emb_base": shape.rotary_base,
        "use_parallel_residual": shape.has_parallel_residual,
        "attention_bias": shape.has_attention_bias,
        "hidden_dropout": shape.dropout,
        "attention_dropout": shape.attention_dropout,
        "layer_norm_eps": shape.norm_epsilon,
        "initializer_range": shape.initial_spread,
        "tie_word_embeddings": shape.is_tied,
    }


WRITERS: Mapping[str, Callable[..., dict[str, object]]] = {
    "bert": _bert,
    "distilbert": _distilbert,
    "gptj": _gptj,
    "neox": _neox,
}
