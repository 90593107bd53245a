"""Hugging Face's names of the same weights, both ways. Another kind of encoder is one row of LAYOUTS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from slipway.containers.recipes.glue_finetune.model import Classifier
from slipway.containers.runtime.errors import Refusal

_HEAD = ("pooler", "classifier")  # may be fresh: pre-training leaves no classifier, and some models no pooler
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
# Of their classes for sequence classification: what stands next to the encoder, not inside it.
_BESIDE = ("classifier", "pre_classifier")


def load_weights(model: Classifier, tensors: Mapping[str, Tensor], place: str) -> list[str]:
    """Load the weights; return the modules of the head that stay fresh. `place` is for messages."""
    found = {_plain(model.shape.kind, name): tensor for name, tensor in tensors.items()}
    fresh: set[str] = set()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            theirs = _theirs(model.shape.kind, name)
            module = name.partition(".")[0]
            problem = _problem(theirs, found, parameter)
            if problem and module in _HEAD:
                fresh.add(module)
            elif problem:
                raise Refusal(f"{place} {problem}", hint="give weights and config.json of one model")
            elif module not in fresh:
                parameter.copy_(torch.cat([found[published].to(parameter.dtype) for published in theirs]))
    return sorted(fresh)


def their_tensors(model: Classifier, weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield `weights` under the names of transformers' class for sequence classification."""
    for name, tensor in weights.items():
        theirs = _theirs(model.shape.kind, name)
        for each, part in zip(theirs, tensor.chunk(len(theirs)), strict=True):
            beside = each.startswith(_BESIDE)
            yield (each if beside else f"{model.shape.kind}.{each}"), part.contiguous()


def _theirs(kind: str, name: str) -> tuple[str, ...]:
    layout = PARAMETER_NAMES[kind]
    module, _, leaf = name.rpartition(".")
    if not module.startswith("layers."):
        return (f"{layout.outside[module]}.{leaf}",)
    _, number, inner = module.split(".")
    inside = layout.together if inner == "query_key_value" else (layout.in_layer[inner],)
    return tuple(f"{layout.layers}.{number}.{each}.{leaf}" for each in inside)


def _plain(kind: str, name: str) -> str:
    """Strip the name of the model around the encoder, and translate old names."""
    plain = name.removeprefix(f"{kind}.")
    for old, new in _OLD_NAMES.items():
        plain = plain.replace(old, new)
    return plain


def _problem(names: tuple[str, ...], found: Mapping[str, Tensor], parameter: Tensor) -> str | None:
    for name in names:
        if name not in found:
            return f"has no tensor {name}"
        wanted = (parameter.shape[0] // len(names), *parameter.shape[1:])
        if tuple(found[name].shape) != wanted:
            return f"has {name} of shape {tuple(found[name].shape)}, and config.json says {wanted}"
        if not found[name].is_floating_point():
            return f"has {name} as {found[name].dtype}"
    return None
