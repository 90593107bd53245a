"""Read and write a model's config.json; refuse one that asks for something that we lack, and name it.

Another model type is a reader and one row of MODEL_TYPES, and a writer and one row of WRITERS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from slipway.containers.models.decoder import DecoderShape
from slipway.containers.models.names import Shape
from slipway.containers.models.shapes import ENCODER_ACTIVATIONS, EncoderShape
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

DEFAULT_DROPOUT = 0.1
# gelu_fast, which GPT-NeoX-20B names, is the same formula as gelu_new.
_GELU: Mapping[str, str] = {
    "gelu": "none",
    "gelu_new": "tanh",
    "gelu_fast": "tanh",
    "gelu_pytorch_tanh": "tanh",
}
_MOST = 1 << 24

Config = Mapping[str, object]


def shape_of_config(name: str, config: Config) -> Shape:
    """Return the shape that config.json describes; `name` is its path or address, for messages."""
    model_type = str(config.get("model_type"))
    if model_type not in MODEL_TYPES:
        raise Refusal(
            f"{name} has the model type {shown(model_type)}, which is not one of {', '.join(MODEL_TYPES)}",
            hint="give a model of one of these; no code of a model is run",
        )
    read = _Reader(name, config)
    read.must_be("quantization_config", None)
    try:
        shape = MODEL_TYPES[model_type](read)
    except ValueError as error:  # raised by the shape's own checks
        raise Refusal(f"{name} contradicts itself: {error}", hint="give the model's own") from error
    if shape.hidden % shape.heads:
        raise Refusal(f"{name} shares {shape.hidden} among {shape.heads} heads", hint="give the model's own")
    return shape


@dataclass(frozen=True, slots=True)
class _Reader:
    name: str
    config: Config

    def whole(self, key: str, default: int | None = None) -> int:
        value = default if self.config.get(key) is None else self.config[key]
        if type(value) is not int or not 1 <= value <= _MOST:
            self.refuse(key, "a whole number from 1")
        return value

    def number(self, *keys: str, default: float, high: float = 1.0) -> float:
        """Return the value of the first of these keys that is present, else the default."""
        for key in keys:
            value = self.config.get(key)
            if value is not None:
                if type(value) not in (int, float) or not 0 <= value < high:  # type: ignore[operator]  # a number by now
                    self.refuse(key, f"a number from 0 to {high:g}")
                return float(value)  # type: ignore[arg-type]  # likewise
        return default

    def flag(self, key: str, *, default: bool) -> bool:
        value = self.config.get(key, default)
        if not isinstance(value, bool):
            self.refuse(key, "true or false")
        return value

    def word(self, key: str, allowed: Mapping[str, str], default: str) -> str:
        value = self.config.get(key, default)
        if not isinstance(value, str) or value not in allowed:
            self.refuse(key, f"one of {', '.join(allowed)}")
        return allowed[value]

    def must_be(self, key: str, *allowed: object) -> None:
        """Refuse any other value of the key; an absent one counts as the first."""
        if self.config.get(key, allowed[0]) not in allowed:
            self.refuse(key, " or ".join(map(_told, allowed)))

    def refuse(self, key: str, wanted: str) -> NoReturn:
        raise Refusal(
            f"{self.name}: {key} is {shown(str(self.config.get(key)))}, and must be {wanted}",
            hint="give a model that we can build",
        )


def _told(value: object) -> str:
    return "absent" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _bert(read: _Reader) -> EncoderShape:
    read.must_be("position_embedding_type", "absolute", None)
    read.must_be("is_decoder", False)
    read.must_be("add_cross_attention", False)
    _refuse_other_encoders(read)
    hidden = read.whole("hidden_size")
    return EncoderShape(
        family="bert",
        layers=read.whole("num_hidden_layers"),
        hidden=hidden,
        heads=read.whole("num_attention_heads"),
        intermediate=read.whole("intermediate_size"),
        vocabulary=read.whole("vocab_size"),
        positions=read.whole("max_position_embeddings"),
        segments=read.whole("type_vocab_size", 2),
        activation=read.word("hidden_act", ENCODER_ACTIVATIONS, "gelu"),
        norm_epsilon=read.number("layer_norm_eps", default=1e-12),
        dropout=read.number("hidden_dropout_prob", default=DEFAULT_DROPOUT),
        attention_dropout=read.number("attention_probs_dropout_prob", default=DEFAULT_DROPOUT),
        head_dropout=read.number("classifier_dropout", "hidden_dropout_prob", default=DEFAULT_DROPOUT),
        initial_spread=read.number("initializer_range", default=0.02),
    )


def _distilbert(read: _Reader) -> EncoderShape:
    read.must_be("sinusoidal_pos_embds", False)
    _refuse_other_encoders(read)
    return EncoderShape(
        family="distilbert",
        layers=read.whole("n_layers"),
        hidden=read.whole("dim"),
        heads=read.whole("n_heads"),
        intermediate=read.whole("hidden_dim"),
        vocabulary=read.whole("vocab_size"),
        positions=read.whole("max_position_embeddings"),
        segments=0,
        activation=read.word("activation", ENCODER_ACTIVATIONS, "gelu"),
        dropout=read.number("dropout", default=DEFAULT_DROPOUT),
        attention_dropout=read.number("attention_dropout", default=DEFAULT_DROPOUT),
        head_dropout=read.number("seq_classif_dropout", default=0.2),  # transformers' default
        initial_spread=read.number("initializer_range", default=0.02),
    )


def _refuse_other_encoders(read: _Reader) -> None:
    read.must_be("tie_word_embeddings", True)
    read.must_be("pruned_heads", None, {})
    read.must_be("pad_token_id", 0, None)


def _gptj(read: _Reader) -> DecoderShape:
    read.must_be("tie_word_embeddings", False)
    dropout = read.number("resid_pdrop", default=0.0)
    if read.number("embd_pdrop", default=0.0) != dropout:
        read.refuse("embd_pdrop", f"{dropout:g}, as resid_pdrop is")
    hidden = read.whole("n_embd")
    return DecoderShape(
        family="gptj",
        layers=read.whole("n_layer"),
        hidden=hidden,
        heads=read.whole("n_head"),
        intermediate=read.whole("n_inner", 4 * hidden),
        vocabulary=read.whole("vocab_size"),
        rotary_dimensions=read.whole("rotary_dim"),
        positions=read.whole("n_positions"),
        has_head_bias=True,
        gelu=read.word("activation_function", _GELU, "gelu_new"),
        norm_epsilon=read.number("layer_norm_epsilon", default=1e-5),
        dropout=dropout,
        attention_dropout=read.number("attn_pdrop", default=0.0),
        initial_spread=read.number("initializer_range", default=0.02),
    )


def _neox(read: _Reader) -> DecoderShape:
    dropout = read.number("hidden_dropout", default=0.0)
    hidden, heads = read.whole("hidden_size"), read.whole("num_attention_heads")
    share, base = _rope(read)
    return DecoderShape(
        family="neox",
        layers=read.whole("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        intermediate=read.whole("intermediate_size"),
        vocabulary=read.whole("vocab_size"),
        rotary_dimensions=int(hidden // heads * share),
        rotary_base=base,
        positions=read.whole("max_position_embeddings"),
        has_parallel_residual=read.flag("use_parallel_residual", default=True),
        has_attention_bias=read.flag("attention_bias", default=True),
        is_tied=read.flag("tie_word_embeddings", default=False),
        gelu=read.word("hidden_act", _GELU, "gelu"),
        norm_epsilon=read.number("layer_norm_eps", default=1e-5),
        dropout=dropout,
        attention_dropout=read.number("attention_dropout", default=0.0),
        initial_spread=read.number("initializer_range", default=0.02),
    )


def _rope(read: _Reader) -> tuple[float, float]:
    """Return the share of a head that rotates, and the base, from keys of transformers 5 or older ones."""
    for key in ("rope_parameters", "rope_scaling"):
        given = read.config.get(key) or {}
        if not isinstance(given, Mapping):
            read.refuse(key, "an object")
        kind = given.get("rope_type", given.get("type", "default"))
        if kind not in ("default", None):
            raise Refusal(
                f"{read.name}: the rope type of {key} is {shown(str(kind))}, and must be default",
                hint="give a model without scaled rotary positions",
            )
    inside = _Reader(f"{read.name}, rope_parameters", read.config.get("rope_parameters") or {})  # type: ignore[arg-type]  # an object, as found above
    share = inside.number(
        "partial_rotary_factor", default=read.number("rotary_pct", default=0.25, high=1.01), high=1.01
    )
    legacy = read.number("rotary_emb_base", default=10_000.0, high=1e12)
    return share, inside.number("rope_theta", default=legacy, high=1e12)


MODEL_TYPES: Mapping[str, Callable[[_Reader], Shape]] = {
    "bert": _bert,
    "distilbert": _distilbert,
    "gptj": _gptj,
    "gpt_neox": _neox,
}


# Write the config.json of our model, for transformers.
_ACTIVATIONS: Mapping[str, str] = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}
_WRITTEN_GELU: Mapping[str, str] = {"none": "gelu", "tanh": "gelu_new"}


def config_of(shape: Shape, architecture: str) -> dict[str, object]:
    """Return config.json for a model of this shape, loaded by transformers' class `architecture`."""
    config = WRITERS[shape.family](shape)
    return {
        "architectures": [architecture],
        "vocab_size": shape.vocabulary,
        "torch_dtype": "float32",
        **config,
    }


def _write_bert(shape: EncoderShape) -> dict[str, object]:
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
        "initializer_range": shape.initial_spread,
        "pad_token_id": 0,
    }


def _write_distilbert(shape: EncoderShape) -> dict[str, object]:
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
        "initializer_range": shape.initial_spread,
        "pad_token_id": 0,
    }


def _write_gptj(shape: DecoderShape) -> dict[str, object]:
    return {
        "model_type": "gptj",
        "activation_function": _WRITTEN_GELU[shape.gelu],
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


def _write_neox(shape: DecoderShape) -> dict[str, object]:
    return {
        "model_type": "gpt_neox",
        "hidden_act": _WRITTEN_GELU[shape.gelu],
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": shape.positions,
        # The keys of transformers 4, which version 5 still reads.
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
    "bert": _write_bert,
    "distilbert": _write_distilbert,
    "gptj": _write_gptj,
    "neox": _write_neox,
}
