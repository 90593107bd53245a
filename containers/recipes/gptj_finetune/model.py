"""The model that tuning begins with, and its vocabulary: a published folder, or the tiny one, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import torch

from slipway.containers.data.megatron.vocabulary import (
    BpeVocabulary,
    find_bpe_vocabulary,
    parse_bpe_vocabulary,
)
from slipway.containers.data.samples.bpe_sample import sample_vocabulary
from slipway.containers.data.sources.ahead import read_whole
from slipway.containers.models.adapters import AdaptedDecoder
from slipway.containers.models.config_writing import config_of
from slipway.containers.models.decoder import Decoder, DecoderShape
from slipway.containers.models.published import ModelFolder, open_model
from slipway.containers.models.published_decoder import PublishedDecoder, refuse_missing
from slipway.containers.recipes.gptj_finetune.config import GptjConfig
from slipway.containers.recipes.gptj_finetune.data import locate
from slipway.containers.recipes.gptj_finetune.defaults import SIZES
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal

CLASS = "GPTJForCausalLM"
_TOKENIZER = "tokenizer.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingModel:
    """Hold what a training begins with."""

    place: str
    shape: DecoderShape
    vocabulary: BpeVocabulary
    config: Mapping[str, object]  # config.json of what is left in the end
    carried: Mapping[str, bytes]  # the tokenizer's files
    folder: ModelFolder | None  # None: weights are drawn

    def fingerprint(self) -> str:
        return "drawn" if self.folder is None else self.folder.weights().fingerprint()


def open_origin(config: GptjConfig, contract: LaunchContract) -> StartingModel:
    origin = _drawn(config) if config.model is None else _published(config.model, contract)
    shape = origin.shape
    if config.length > shape.positions:
        raise Refusal(
            f"length={config.length} is more than the {shape.positions} positions of {origin.place}",
            hint=f"set length to at most {shape.positions}",
        )
    if origin.vocabulary.entries > shape.vocabulary:
        raise Refusal(
            f"{origin.vocabulary.name} has {origin.vocabulary.entries} tokens, and {origin.place} knows "
            f"{shape.vocabulary}",
            hint="give the vocabulary that belongs to the model",
        )
    return origin


def _drawn(config: GptjConfig) -> StartingModel:
    known, content = SIZES[config.size], sample_vocabulary()
    shape = DecoderShape(family="gptj", intermediate=4 * known.hidden, has_head_bias=True, **asdict(known))
    return StartingModel(
        place=f"size={config.size}",
        shape=shape,
        vocabulary=parse_bpe_vocabulary("the tiny model's vocabulary", content),
        config=config_of(shape, CLASS),
        carried={_TOKENIZER: content},
        folder=None,
    )


def _published(given: str, contract: LaunchContract) -> StartingModel:
    folder = open_model(locate(contract, given), bucket_owner=contract.account)
    shape = folder.shape
    if not isinstance(shape, DecoderShape) or shape.family != "gptj":
        raise Refusal(f"{folder.place} is a {shape.family}, and this recipe tunes gptj", hint="give a GPT-J")
    names = [file.name for file in folder.source.files]
    return StartingModel(
        place=folder.place,
        shape=shape,
        vocabulary=find_bpe_vocabulary(folder.place, names, lambda name: read_whole(folder.source, name)),
        config={**folder.config, "architectures": [CLASS], "torch_dtype": "float32"},
        carried=folder.carried(),
        folder=folder,
    )


def build_model(config: GptjConfig, origin: StartingModel) -> Decoder:
    """Build the model on the meta device: each rank fills its own shares of it."""
    published = None if origin.folder is None else origin.folder.weights()
    with torch.device("meta"):
        whole = Decoder(origin.shape)
        if published is not None:
            refuse_missing(whole, published)
        if config.lora_rank:
            return AdaptedDecoder(
                origin.shape,
                rank=config.lora_rank,
                alpha=config.lora_alpha,
                seed=config.seed,
                published=published,
            )
        if published is None:
            return whole
        model = PublishedDecoder(origin.shape)
    model.published = published
    return model
