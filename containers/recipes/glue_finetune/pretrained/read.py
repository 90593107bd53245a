"""A model directory as Hugging Face's: config.json, vocab.txt, model.safetensors. Here, or in S3.

Nothing is fetched from a hub, and nothing in a directory is run: neither pickles nor code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.ahead import read_whole
from slipway.containers.data.sources.inputs import open_source
from slipway.containers.data.sources.locations import is_remote, public
from slipway.containers.data.sources.sources import Source
from slipway.containers.data.tokens.vocabulary import Vocabulary, parse_vocabulary
from slipway.containers.models.encoder import ACTIVATIONS
from slipway.containers.models.folder import CONFIG, TOKENIZER, VOCABULARY, WEIGHTS
from slipway.containers.models.shapes import EncoderShape
from slipway.containers.runtime.checkpoint.tensor_file import decode_tensors
from slipway.containers.runtime.checkpoint.tensors import to_torch
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
MOST_UNUSED_ENTRIES = 128  # rows of an embedding that no entry has: some models round their vocabulary up
DEFAULT_DROPOUT = 0.1
DISTILBERT_HEAD_DROPOUT = 0.2  # transformers' own default of seq_classif_dropout


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretrained:
    place: str
    config: Mapping[str, Any]
    shape: EncoderShape
    vocabulary: Vocabulary
    cased: bool
    tensors: Mapping[str, Tensor]
    digest: str  # of the weights' file


def read_pretrained(place: str, *, bucket_owner: str | None = None) -> Pretrained:
    told = public(place)
    source = _open(place, bucket_owner)
    _refuse_missing(source, told)
    config = _object(told, CONFIG, read_whole(source, CONFIG))
    shape = _shape(f"{told}/{CONFIG}", config)
    vocabulary = parse_vocabulary(f"{told}/{VOCABULARY}", read_whole(source, VOCABULARY))
    _refuse_other_vocabulary(shape, vocabulary, told)
    content = bytearray(read_whole(source, WEIGHTS))
    return Pretrained(
        place=told,
        config=config,
        shape=shape,
        vocabulary=vocabulary,
        cased=_is_cased(told, source, vocabulary),
        digest=hashlib.sha256(content).hexdigest(),
        tensors=to_torch(decode_tensors(Path(f"{told}/{WEIGHTS}"), content)),
    )


def _open(place: str, bucket_owner: str | None) -> Source:
    if not is_remote(place) and not Path(place).is_dir():
        raise Refusal(
            f"there is no model directory {place}",
            hint=f"nothing is fetched from a hub: put {CONFIG}, {VOCABULARY} and {WEIGHTS} there, or set "
            "model=s3://bucket/prefix",
        )
    return open_source(place, bucket_owner=bucket_owner)


def _refuse_missing(source: Source, place: str) -> None:
    there = {file.name for file in source.files}
    pickles = sorted(name for name in there if name.endswith(PICKLES))
    if WEIGHTS not in there and pickles:
        raise Refusal(
            f"{place} has {pickles[0]}, a pickle: to read one runs what is in it",
            hint=f"convert it where you trust it, by save_pretrained of transformers, to {WEIGHTS}",
        )
    missing = [name for name in (CONFIG, VOCABULARY, WEIGHTS) if name not in there]
    if missing:
        raise Refusal(
            f"{place} has no {' and no '.join(missing)}", hint="give a whole model directory, as a hub has it"
        )


def _object(place: str, name: str, content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Refusal(f"{place}/{name} is not a JSON object", hint="give the model's own")
    return found


def _shape(name: str, config: Mapping[str, Any]) -> EncoderShape:
    kind = str(config.get("model_type"))
    if kind not in SHAPES:
        raise Refusal(
            f"{name} has the model type {shown(kind)}, which this recipe does not train",
            hint=f"give one of {' or '.join(SHAPES)}; no code of a model is run",
        )
    shape = SHAPES[kind](_Reader(name, config))
    if shape.hidden % shape.heads:
        raise Refusal(f"{name} shares {shape.hidden} among {shape.heads} heads", hint="give the model's own")
    return shape


@dataclass(frozen=True, slots=True)
class _Reader:
    name: str
    config: Mapping[str, Any]

    def whole(self, key: str) -> int:
        value = self.config.get(key)
        if type(value) is not int or not 1 <= value <= 1 << 24:
            self.refuse(key, "a whole number from 1")
        assert isinstance(value, int)
        return value

    def share(self, *keys: str, default: float = DEFAULT_DROPOUT) -> float:
        """Return the first of these keys that is present."""
        for key in keys:
            value = self.config.get(key)
            if value is not None:
                if type(value) not in (int, float) or not 0 <= value < 1:
                    self.refuse(key, "a number from 0 to 1")
                return float(value)
        return default

    def must_be(self, key: str, *allowed: object) -> None:
        """Refuse any other value of the key; an absent one counts as the first."""
        if self.config.get(key, allowed[0]) not in allowed:
            self.refuse(key, " or ".join(map(str, allowed)))

    def activation(self, key: str) -> str:
        value = self.config.get(key, "gelu")
        if value not in ACTIVATIONS:
            self.refuse(key, f"one of {', '.join(ACTIVATIONS)}")
        return str(value)

    def epsilon(self) -> float:
        value = self.config.get("layer_norm_eps", 1e-12)
        if type(value) is not float or not 0 < value < 1:
            self.refuse("layer_norm_eps", "a number from 0 to 1")
        return float(value)

    def refuse(self, key: str, wanted: str) -> None:
        raise Refusal(
            f"{self.name}: {key} is {shown(str(self.config.get(key)))}, and must be {wanted}",
            hint="give another BERT or DistilBERT",
        )


def _bert(read: _Reader) -> EncoderShape:
    read.must_be("position_embedding_type", "absolute", None)
    read.must_be("is_decoder", False)
    return EncoderShape(
        family="bert",
        layers=read.whole("num_hidden_layers"),
        hidden=read.whole("hidden_size"),
        heads=read.whole("num_attention_heads"),
        intermediate=read.whole("intermediate_size"),
        vocabulary=read.whole("vocab_size"),
        positions=read.whole("max_position_embeddings"),
        activation=read.activation("hidden_act"),
        norm_epsilon=read.epsilon(),
        segments=2 if read.config.get("type_vocab_size") is None else read.whole("type_vocab_size"),
        dropout=read.share("hidden_dropout_prob"),
        attention_dropout=read.share("attention_probs_dropout_prob"),
        head_dropout=read.share("classifier_dropout", "hidden_dropout_prob"),
    )


def _distilbert(read: _Reader) -> EncoderShape:
    return EncoderShape(
        family="distilbert",
        layers=read.whole("n_layers"),
        hidden=read.whole("dim"),
        heads=read.whole("n_heads"),
        intermediate=read.whole("hidden_dim"),
        vocabulary=read.whole("vocab_size"),
        positions=read.whole("max_position_embeddings"),
        activation=read.activation("activation"),
        segments=0,
        dropout=read.share("dropout"),
        attention_dropout=read.share("attention_dropout"),
        head_dropout=read.share("seq_classif_dropout", default=DISTILBERT_HEAD_DROPOUT),
    )


SHAPES: Mapping[str, Callable[[_Reader], EncoderShape]] = {"bert": _bert, "distilbert": _distilbert}


def _refuse_other_vocabulary(shape: EncoderShape, vocabulary: Vocabulary, place: str) -> None:
    entries = len(vocabulary.entries)
    if not 0 <= shape.vocabulary - entries < MOST_UNUSED_ENTRIES:
        raise Refusal(
            f"{place}/{VOCABULARY} has {entries} entries, and the model knows {shape.vocabulary}",
            hint="give the vocabulary that belongs to the model",
        )


def _is_cased(place: str, source: Source, vocabulary: Vocabulary) -> bool:
    """Return what the directory says; else judge by capitals, which only a cased vocabulary has."""
    if any(file.name == TOKENIZER for file in source.files):
        said = _object(place, TOKENIZER, read_whole(source, TOKENIZER)).get("do_lower_case")
        if isinstance(said, bool):
            return not said
    return any(entry != entry.lower() for entry in vocabulary.entries if not entry.startswith("["))


def refuse_long_rows(pretrained: Pretrained, max_length: int) -> None:
    places = pretrained.shape.positions
    if max_length > places:
        raise DataError(
            f"max_length is {max_length}, and {pretrained.place} has {places} places",
            hint=f"set max_length={places} or less",
        )
