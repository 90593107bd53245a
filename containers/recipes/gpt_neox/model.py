"""The model that training begins with: a published size, any config.json, or published weights.

It is built without memory: each rank fills its own shares of it, one parameter at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from slipway.containers.models.config_reading import shape_of_config
from slipway.containers.models.decoder import Decoder, DecoderShape
from slipway.containers.models.names import Shape
from slipway.containers.models.published import CONFIG, open_model, read_object
from slipway.containers.models.published_decoder import PublishedDecoder, refuse_missing
from slipway.containers.recipes.gpt_neox.config import GptNeoxConfig
from slipway.containers.recipes.gpt_neox.data import below_data
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.named_files import read_bytes

_MOST_CONFIG_BYTES = 1 << 20


def _neox(layers: int, hidden: int, heads: int, **more: object) -> DecoderShape:
    return DecoderShape(
        family="neox",
        layers=layers,
        hidden=hidden,
        heads=heads,
        intermediate=4 * hidden,
        rotary_dimensions=hidden // heads // 4,
        has_attention_bias=True,
        **more,  # type: ignore[arg-type]  # fields of the shape
    )


# EleutherAI/gpt-neox-20b and EleutherAI/pythia-6.9b, as their config.json describe them. Their vocabularies
# are padded; GPT-2's 50,257 tokens fit, too.
SIZES: Mapping[str, DecoderShape] = {
    "neox-20b": _neox(44, 6144, 64, vocabulary=50432, gelu="tanh"),
    "pythia-6.9b": _neox(32, 4096, 32, vocabulary=50432, gelu="none"),
    "tiny": _neox(4, 64, 4, vocabulary=512, gelu="none", positions=256, initial_spread=0.1),
}


def build_model(config: GptNeoxConfig, contract: LaunchContract) -> Decoder:
    """Build the model on the meta device."""
    if config.start_from_model is None:
        with torch.device("meta"):
            return Decoder(model_shape(config, contract))
    folder = open_model(str(below_data(contract, config.start_from_model)))
    shape = _suited(config, folder.shape, folder.place)
    with torch.device("meta"):
        model = PublishedDecoder(shape)
    model.published = replace(folder, shape=shape).weights()
    refuse_missing(model, model.published)
    return model


def model_shape(config: GptNeoxConfig, contract: LaunchContract) -> DecoderShape:
    """Return the shape of a size, or of a config.json as it is."""
    if config.config is None:
        return _suited(config, SIZES[config.size], f"size={config.size}")
    path = below_data(contract, config.config)
    path = path / CONFIG if path.is_dir() else path
    shape = shape_of_config(str(path), read_object(str(path), read_bytes(path, _MOST_CONFIG_BYTES)))
    return _suited(config, shape, str(path))


def _suited(config: GptNeoxConfig, shape: Shape, place: str) -> DecoderShape:
    """Refuse a shape that is no GPT-NeoX, or that cannot be trained so."""
    if not isinstance(shape, DecoderShape) or shape.family != "neox":
        raise Refusal(f"{place} is a {shape.family}, and this recipe trains neox", hint="give a GPT-NeoX")
    if config.length > shape.positions:
        raise Refusal(
            f"length={config.length} is more than the {shape.positions} positions of {place}",
            hint=f"set length to at most {shape.positions}",
        )
    words = shape.vocabulary if config.vocabulary is None else config.vocabulary
    if config.start_from_model is not None and words != shape.vocabulary:
        raise Refusal(
            f"vocabulary={words}, and the weights in {place} are of {shape.vocabulary} tokens",
            hint="leave vocabulary out",
        )
    if words % config.tensor:
        padded = -(-words // config.tensor) * config.tensor
        raise Refusal(
            f"tensor={config.tensor} does not divide the vocabulary of {words}",
            hint=f"set vocabulary={padded}, which pads it, or another tensor",
        )
    return replace(shape, vocabulary=words, rotates_whole_heads=config.rotary == "whole")
