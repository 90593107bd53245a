"""The classifier's weights from and to Hugging Face's tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from slipway.containers.models.heads import Classifier
from slipway.containers.models.names import plain_name, published_names, published_tensors
from slipway.containers.runtime.errors import Refusal

_HEAD = ("pooler", "classifier")  # may be fresh: pre-training leaves no classifier, and some models no pooler
# Of their classes for sequence classification: what stands next to the encoder, not inside it.
_BESIDE = ("classifier", "pre_classifier")


def load_weights(model: Classifier, tensors: Mapping[str, Tensor], place: str) -> list[str]:
    """Load the weights; return the modules of the head that stay fresh. `place` is for messages."""
    found = {plain_name(model.shape.family, name): tensor for name, tensor in tensors.items()}
    fresh: set[str] = set()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            theirs = published_names(model.shape.family, name)
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
    return published_tensors(model.shape.family, weights, _BESIDE)


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
