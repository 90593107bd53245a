"""Read and write a model's config.json; refuse one that asks for something that we lack, and name it.

Another model type is one row of MODEL_TYPES: its keys serve both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from slipway.containers.models.decoder import DecoderShape
from slipway.containers.models.names import Shape
from slipway.containers.models.shapes import ENCODER_ACTIVATIONS, EncoderShape
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

DEFAULT_DROPOUT = 0.1
# By field: the words of config.json and ours, and the words that we write for ours. gelu_fast, which
# GPT-NeoX-20B names, is the same formula as gelu_new.
_WORDS: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "activation": (ENCODER_ACTIVATIONS, {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}),
    "gelu": (
        {"gelu": "none", "gelu_new": "tanh", "gelu_fast": "tanh", "gelu_pytorch_tanh": "tanh"},
        {"none": "gelu", "tanh": "gelu_new"},
    ),
}
_MOST = 1 << 24

Config = Mapping[str, object]
Fields = dict[str, Any]  # of a shape


def shape_of_config(name: str, config: Config) -> Shape:
    """Return the shape that config.json describes; `name` is its path or address, for messages."""
    model_type = str(config.get("model_type"))
    if model_type not in MODEL_TYPES:
        raise Refusal(
            f"{name} has the model type {shown(model_type)}, which is not one of {', '.join(MODEL_TYPES)}",
            hint="give a model of one of these; no code of a model is run",
        )
    known, read = MODEL_TYPES[model_type], _Reader(name, config)
    for key, allowed in {"quantization_config": (None,), **known.must_be}.items():
        read.must_be(key, *allowed)
    fields = {field: read.field(key, field, default) for key, (field, default) in known.keys.items()}
    fields |= known.more(read, fields)
    try:
        shape: Shape = known.shape(family=known.family, **fields)
    except ValueError as error:  # raised by the shape's own checks
        raise Refusal(f"{name} contradicts itself: {error}", hint="give the model's own") from error
    if shape.hidden % shape.heads:
        raise Refusal(f"{name} shares {shape.hidden} among {shape.heads} heads", hint="give the model's own")
    return shape


def config_of(shape: Shape, architecture: str) -> dict[str, object]:
    """Return config.json for a model of this shape, loaded by transformers' class `architecture`."""
    model_type, known = next(found for found in MODEL_TYPES.items() if found[1].family == shape.family)
    fields = {key: (field, getattr(shape, field)) for key, (field, _) in known.keys.items()}
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "torch_dtype": "float32",
        **{
            key: _WORDS[field][1][value] if field in _WORDS else value
            for key, (field, value) in fields.items()
        },
        **known.also(shape),
    }


@dataclass(frozen=True, slots=True)
class _Reader:
    name: str
    config: Config

    def field(self, key: str, field: str, default: object) -> object:
        """Return the value of a key; the type of its default tells what it must be, and None a number."""
        if field in _WORDS:
            return self.word(key, _WORDS[field][0], str(default))
        if isinstance(default, bool):
            return self.flag(key, default=default)
        if isinstance(default, float):
            return self.number(key, default=default)
        assert default is None or isinstance(default, int), "sizes are whole numbers"
        return self.whole(key, default)

    def whole(self, key: str, default: int | None = None) -> int:
        value = default if self.config.get(key) is None else self.config[key]
        if type(value) is not int or not 1 <= value <= _MOST:
            self.refuse(key, "a whole number from 1")
        return value

    def number(self, key: str, *, default: float, high: float = 1.0) -> float:
        value = default if self.config.get(key) is None else self.config[key]
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < high:
            self.refuse(key, f"a number from 0 to {high:g}")
        return float(value)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelType:
    """Describe the config.json of one type of models."""

    shape: Callable[..., Shape]
    family: str
    # The field of the shape, and the default if the key may be absent.
    keys: Mapping[str, tuple[str, object]]
    must_be: Mapping[str, tuple[object, ...]]  # all values that we can build; an absent one is the first
    more: Callable[[_Reader, Fields], Fields]  # what does not follow from one key, beside what does
    also: Callable[[Any], dict[str, object]]  # what is written beside `keys`


_OF_ENCODERS: Mapping[str, tuple[object, ...]] = {
    "tie_word_embeddings": (True,),
    "pruned_heads": (None, {}),
    "pad_token_id": (0, None),
}


def _more_of_bert(read: _Reader, fields: Fields) -> Fields:
    return {"head_dropout": read.number("classifier_dropout", default=fields["dropout"])}


def _more_of_gptj(read: _Reader, fields: Fields) -> Fields:
    if read.number("embd_pdrop", default=0.0) != fields["dropout"]:
        read.refuse("embd_pdrop", f"{fields['dropout']:g}, as resid_pdrop is")
    return {"intermediate": read.whole("n_inner", 4 * fields["hidden"]), "has_head_bias": True}


def _more_of_neox(read: _Reader, fields: Fields) -> Fields:
    share, base = _rope(read)
    width = fields["hidden"] // fields["heads"]
    return {"rotary_dimensions": int(width * share), "rotary_base": base}


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


MODEL_TYPES: Mapping[str, ModelType] = {
    "bert": ModelType(
        shape=EncoderShape,
        family="bert",
        keys={
            "hidden_size": ("hidden", None),
            "num_hidden_layers": ("layers", None),
            "num_attention_heads": ("heads", None),
            "intermediate_size": ("intermediate", None),
            "vocab_size": ("vocabulary", None),
            "max_position_embeddings": ("positions", None),
            "type_vocab_size": ("segments", 2),
            "hidden_act": ("activation", "gelu"),
            "layer_norm_eps": ("norm_epsilon", 1e-12),
            "hidden_dropout_prob": ("dropout", DEFAULT_DROPOUT),
            "attention_probs_dropout_prob": ("attention_dropout", DEFAULT_DROPOUT),
            "initializer_range": ("initial_spread", 0.02),
        },
        must_be={
            "position_embedding_type": ("absolute", None),
            "is_decoder": (False,),
            "add_cross_attention": (False,),
            **_OF_ENCODERS,
        },
        more=_more_of_bert,
        also=lambda shape: {"pad_token_id": 0},
    ),
    "distilbert": ModelType(
        shape=EncoderShape,
        family="distilbert",
        keys={
            "n_layers": ("layers", None),
            "dim": ("hidden", None),
            "n_heads": ("heads", None),
            "hidden_dim": ("intermediate", None),
            "vocab_size": ("vocabulary", None),
            "max_position_embeddings": ("positions", None),
            "activation": ("activation", "gelu"),
            "dropout": ("dropout", DEFAULT_DROPOUT),
            "attention_dropout": ("attention_dropout", DEFAULT_DROPOUT),
            "seq_classif_dropout": ("head_dropout", 0.2),  # transformers' default
            "initializer_range": ("initial_spread", 0.02),
        },
        must_be={"sinusoidal_pos_embds": (False,), **_OF_ENCODERS},
        more=lambda read, fields: {"segments": 0},
        also=lambda shape: {"pad_token_id": 0},
    ),
    "gptj": ModelType(
        shape=DecoderShape,
        family="gptj",
        keys={
            "resid_pdrop": ("dropout", 0.0),
            "n_embd": ("hidden", None),
            "n_layer": ("layers", None),
            "n_head": ("heads", None),
            "vocab_size": ("vocabulary", None),
            "rotary_dim": ("rotary_dimensions", None),
            "n_positions": ("positions", None),
            "activation_function": ("gelu", "gelu_new"),
            "layer_norm_epsilon": ("norm_epsilon", 1e-5),
            "attn_pdrop": ("attention_dropout", 0.0),
            "initializer_range": ("initial_spread", 0.02),
        },
        must_be={"tie_word_embeddings": (False,)},
        more=_more_of_gptj,
        also=lambda shape: {
            "n_inner": shape.intermediate,
            "embd_pdrop": shape.dropout,
            "tie_word_embeddings": shape.is_tied,
        },
    ),
    "gpt_neox": ModelType(
        shape=DecoderShape,
        family="neox",
        keys={
            "hidden_dropout": ("dropout", 0.0),
            "hidden_size": ("hidden", None),
            "num_attention_heads": ("heads", None),
            "num_hidden_layers": ("layers", None),
            "intermediate_size": ("intermediate", None),
            "vocab_size": ("vocabulary", None),
            "max_position_embeddings": ("positions", None),
            "use_parallel_residual": ("has_parallel_residual", True),
            "attention_bias": ("has_attention_bias", True),
            "tie_word_embeddings": ("is_tied", False),
            "hidden_act": ("gelu", "gelu"),
            "layer_norm_eps": ("norm_epsilon", 1e-5),
            "attention_dropout": ("attention_dropout", 0.0),
            "initializer_range": ("initial_spread", 0.02),
        },
        must_be={},
        more=_more_of_neox,
        # The keys of transformers 4, which version 5 still reads.
        also=lambda shape: {
            "rotary_pct": shape.rotary_dimensions / shape.head_width,
            "rotary_emb_base": shape.rotary_base,
        },
    ),
}
