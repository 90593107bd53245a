"""Hugging Face's names of our encoders' weights. Another family is one row of PARAMETER_NAMES."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

_OLD_NAMES: Mapping[str, str] = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterNames:
    """Map our modules to the names in one family's published checkpoints."""

    outside: Mapping[str, str]  # our modules to theirs
    layers: str
    in_layer: Mapping[str, str]
    together: tuple[str, str, str]  # what our query_key_value is cut into


_EMBEDDINGS: Mapping[str, str] = {
    "embeddings.words": "embeddings.word_embeddings",
    "embeddings.places": "embeddings.position_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
}

PARAMETER_NAMES: Mapping[str, ParameterNames] = {
    "bert": ParameterNames(
        outside={
            **_EMBEDDINGS,
            "embeddings.segments": "embeddings.token_type_embeddings",
            "pooler": "pooler.dense",
            "classifier": "classifier",
            "words": "cls.predictions",
            "words.transform": "cls.predictions.transform.dense",
            "words.norm": "cls.predictions.transform.LayerNorm",
            "next_sentence": "cls.seq_relationship",
        },
        layers="encoder.layer",
        in_layer={
            "attention_output": "attention.output.dense",
            "attention_norm": "attention.output.LayerNorm",
            "up": "intermediate.dense",
            "down": "output.dense",
            "output_norm": "output.LayerNorm",
        },
        together=("attention.self.query", "attention.self.key", "attention.self.value"),
    ),
    "distilbert": ParameterNames(
        outside={**_EMBEDDINGS, "pooler": "pre_classifier", "classifier": "classifier"},
        layers="transformer.layer",
        in_layer={
            "attention_output": "attention.out_lin",
            "attention_norm": "sa_layer_norm",
            "up": "ffn.lin1",
            "down": "ffn.lin2",
            "output_norm": "output_layer_norm",
        },
        together=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    ),
}


def published_names(kind: str, name: str) -> tuple[str, ...]:
    """Return what the family `kind` calls our parameter; several names are stacked in ours."""
    family = PARAMETER_NAMES[kind]
    module, _, leaf = name.rpartition(".")
    if not module.startswith("layers."):
        return (f"{family.outside[module]}.{leaf}",)
    _, number, inner = module.split(".")
    inside = family.together if inner == "query_key_value" else (family.in_layer[inner],)
    return tuple(f"{family.layers}.{number}.{part}.{leaf}" for part in inside)


def plain_name(kind: str, name: str) -> str:
    """Strip the name of the model around the encoder, and translate old names."""
    plain = name.removeprefix(f"{kind}.")
    for old, new in _OLD_NAMES.items():
        plain = plain.replace(old, new)
    return plain


def published_tensors(
    kind: str, weights: Mapping[str, Tensor], beside: tuple[str, ...]
) -> Iterator[tuple[str, Tensor]]:
    """Yield our weights under their published names; those in `beside` stand next to the encoder."""
    for name, tensor in weights.items():
        published = published_names(kind, name)
        for each, part in zip(published, tensor.chunk(len(published)), strict=True):
            yield (each if each.startswith(beside) else f"{kind}.{each}"), part.contiguous()
