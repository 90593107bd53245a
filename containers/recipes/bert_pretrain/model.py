"""The model that pre-training begins with: a published size, any config.json, or published weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from slipway.containers.data.rows.dataset import Dataset
from slipway.containers.models.config_reading import shape_of_config
from slipway.containers.models.heads import BertForPreTraining
from slipway.containers.models.names import Shape
from slipway.containers.models.published import CONFIG, ModelFolder, load_weights, open_model, read_object
from slipway.containers.models.shapes import BERT_SIZES, EncoderShape
from slipway.containers.models.vocabulary import MOST_UNUSED_ENTRIES, read_model_vocabulary
from slipway.containers.recipes.bert_pretrain.config import BertConfig
from slipway.containers.runtime import disk
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.named_files import read_bytes
from slipway.containers.training.report import Say
from slipway.containers.training.start import local_folder

VOCABULARY_MULTIPLE = 8  # that matrix units like, as the references pad; the export cuts the padding off
_MOST_CONFIG_BYTES = 1 << 20
_HEADS = ("pooler", "next_sentence", "words")  # may be fresh: the bare model is published without


def build_model(
    config: BertConfig, contract: LaunchContract, dataset: Dataset, say: Say
) -> BertForPreTraining:
    """Build the same weights on every rank: published ones, or drawn from the seed alone."""
    torch.manual_seed(config.seed)
    if config.start_from_model is None:
        return BertForPreTraining(model_shape(config, contract, dataset))
    folder = open_model(str(_below_data(contract, config.start_from_model)))
    _refuse_other_vocabulary(folder, dataset)
    model = BertForPreTraining(_suited(config, folder.shape, folder.place, dataset))
    if fresh := load_weights(model, folder.weights(), _HEADS):
        say(f"{' and '.join(fresh)} of the model start(s) random: {folder.place} has none that fit")
    return model


def model_shape(config: BertConfig, contract: LaunchContract, dataset: Dataset) -> EncoderShape:
    """Return the shape of a size, with the data's own vocabulary, or of a config.json as it is."""
    if config.config is None:
        entries = dataset.manifest.plan.vocabulary_entries
        return _with_settings(config, replace(BERT_SIZES[config.size], vocabulary=entries))
    path = _below_data(contract, config.config)
    path = path / CONFIG if path.is_dir() else path
    shape = shape_of_config(str(path), read_object(str(path), read_bytes(path, _MOST_CONFIG_BYTES)))
    return _suited(config, shape, str(path), dataset)


def _suited(config: BertConfig, shape: Shape, place: str, dataset: Dataset) -> EncoderShape:
    """Refuse a shape that is no BERT or does not fit the data."""
    plan = dataset.manifest.plan
    if not isinstance(shape, EncoderShape) or shape.family != "bert":
        raise Refusal(f"{place} is a {shape.family}, and this recipe trains bert", hint="give a BERT")
    if not 0 <= shape.vocabulary - plan.vocabulary_entries < MOST_UNUSED_ENTRIES:
        raise Refusal(
            f"{place} knows {shape.vocabulary} words, and {dataset.folder} has a vocabulary of "
            f"{plan.vocabulary_entries}",
            hint="prepare the data with the model's own vocabulary, or set vocab_size",
        )
    if shape.positions < plan.row_tokens or shape.segments < 2:
        raise Refusal(
            f"{place} has {shape.positions} positions and {shape.segments} segments, and rows have "
            f"{plan.row_tokens} tokens in 2 segments",
            hint="give a model with at least as many, or train phase 1",
        )
    return _with_settings(config, shape)


def _with_settings(config: BertConfig, shape: EncoderShape) -> EncoderShape:
    rows = -(-shape.vocabulary // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE
    shape = replace(shape, vocabulary_rows=rows)
    if config.dropout is None:
        return shape
    return replace(shape, dropout=config.dropout, attention_dropout=config.dropout)


def _refuse_other_vocabulary(folder: ModelFolder, dataset: Dataset) -> None:
    """Refuse data whose numbers mean other words than the model's."""
    words = read_model_vocabulary(folder)
    if words.vocabulary.digest != dataset.manifest.plan.vocabulary_sha256:
        raise Refusal(
            f"{dataset.folder} was prepared with another vocabulary than {folder.place} has",
            hint="prepare the data again with --vocabulary set to the model's vocab.txt",
        )


def _below_data(contract: LaunchContract, given: str) -> Path:
    if contract.data is None:
        raise Refusal("there is no data folder", hint="set SLIPWAY_DATA, which the cluster's jobs do")
    return disk.folder_within(str(local_folder("the data", contract.data)), *given.split("/"))
