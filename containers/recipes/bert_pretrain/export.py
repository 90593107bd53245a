"""The trained model as a folder that transformers and glue_finetune load, from its last checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from slipway.containers.data.rows.dataset import Dataset
from slipway.containers.data.rows.prepare import VOCABULARY
from slipway.containers.data.tokens.vocabulary import read_vocabulary
from slipway.containers.models.encoder import INITIAL_SPREAD
from slipway.containers.models.folder import write_folder
from slipway.containers.models.heads import BertForPreTraining
from slipway.containers.models.names import published_tensors
from slipway.containers.models.shapes import EncoderShape
from slipway.containers.runtime.checkpoint.manifest import read_manifest
from slipway.containers.runtime.checkpoint.resume import Resumed, published
from slipway.containers.training.start import element_counts
from slipway.containers.training.state import WEIGHTS, read_pieces

_BESIDE = ("cls.",)  # the heads stand next to the encoder, not inside it


def export(checkpoints: Path, shape: EncoderShape, dataset: Dataset) -> str:
    """Write the model of the newest checkpoint beside it; return a line that says where, or why not."""
    vocabulary = dataset.folder / VOCABULARY
    if not vocabulary.exists():
        return f"no model folder is written: {vocabulary} is missing; prepare the data again to have it"
    folder = write_folder(
        checkpoints,
        config=describe(shape),
        tensors=published_tensors("bert", newest_weights(checkpoints, shape), _BESIDE),
        vocabulary=read_vocabulary(vocabulary),
        is_cased=False,
    )
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


def describe(shape: EncoderShape) -> dict[str, object]:
    """Return config.json as transformers writes it for BERT."""
    return {
        "architectures": ["BertForPreTraining"],
        "model_type": "bert",
        "hidden_act": shape.activation,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.intermediate,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.positions,
        "type_vocab_size": shape.segments,
        "hidden_dropout_prob": shape.dropout,
        "attention_probs_dropout_prob": shape.attention_dropout,
        "layer_norm_eps": shape.norm_epsilon,
        "initializer_range": INITIAL_SPREAD,
        "pad_token_id": 0,
    }
