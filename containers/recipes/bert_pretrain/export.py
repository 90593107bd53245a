"""The trained model as a folder that transformers and glue_finetune load, from its last checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from slipway.containers.data.rows.dataset import Dataset
from slipway.containers.data.rows.prepare import VOCABULARY
from slipway.containers.data.tokens.vocabulary import read_vocabulary
from slipway.containers.models.config_writing import config_of
from slipway.containers.models.folder import ModelPlan, WeightPiece, described, write_model
from slipway.containers.models.heads import BertForPreTraining
from slipway.containers.models.shapes import EncoderShape
from slipway.containers.models.vocabulary import ModelVocabulary
from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.manifest import read_manifest
from slipway.containers.runtime.checkpoint.resume import Resumed, published
from slipway.containers.training.start import element_counts
from slipway.containers.training.state import WEIGHTS, read_pieces

CLASS = "BertForPreTraining"


def export(checkpoints: Path, shape: EncoderShape, dataset: Dataset) -> str:
    """Write the model of the newest checkpoint beside it; return a line that says where, or why not."""
    vocabulary = dataset.folder / VOCABULARY
    if not vocabulary.exists():
        return f"no model folder is written: {vocabulary} is missing; prepare the data again to have it"
    weights = newest_weights(checkpoints, shape)
    plan = ModelPlan(shape=shape, sizes={name: tuple(tensor.shape) for name, tensor in weights.items()})
    whole = (
        WeightPiece(parameter=name, box=Box.whole(tensor.shape), data=tensor)
        for name, tensor in weights.items()
    )
    words = ModelVocabulary(vocabulary=read_vocabulary(vocabulary), is_cased=dataset.manifest.plan.cased)
    folder = write_model(checkpoints, plan, whole, described(config_of(shape, CLASS), words.files()))
    return f"the model is in {folder}"


def newest_weights(checkpoints: Path, shape: EncoderShape) -> dict[str, Tensor]:
    """Put the pieces of all ranks together, in fp32, whatever the engine and precision of the training."""
    newest = next(iter(published(checkpoints).values()))
    found = Resumed(folder=newest, manifest=read_manifest(newest), rejected=frozenset())
    with torch.device("meta"):  # shapes alone: an engine may have cut the model that was trained
        model = BertForPreTraining(shape)
    whole = {name: torch.empty(parameter.shape) for name, parameter in model.named_parameters()}
    for piece in read_pieces(found, element_counts(model)):
        if piece.kind == WEIGHTS:
            piece.copy_to(whole[piece.parameter].view(-1), 0)
    return whole
