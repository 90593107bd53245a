"""The trained model as a folder that transformers and glue_finetune load, from its last checkpoint."""

from __future__ import annotations

import torch

from slipway.containers.data.rows.dataset import Dataset
from slipway.containers.data.rows.prepare import VOCABULARY
from slipway.containers.data.tokens.vocabulary import read_vocabulary
from slipway.containers.models.config_writing import config_of
from slipway.containers.models.folder import ModelPlan, WeightPiece, described, write_model
from slipway.containers.models.heads import BertForPreTraining
from slipway.containers.models.shapes import EncoderShape
from slipway.containers.models.vocabulary import ModelVocabulary
from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.resume import Resumed
from slipway.containers.runtime.checkpoint.storage import Storage
from slipway.containers.runtime.checkpoint.verify import read_manifest
from slipway.containers.training.start import shapes_of
from slipway.containers.training.state import WEIGHTS, SavedState

CLASS = "BertForPreTraining"


def export(storage: Storage, shape: EncoderShape, dataset: Dataset) -> str:
    """Write the model of the newest checkpoint beside it; return a line that says where, or why not."""
    vocabulary = dataset.folder / VOCABULARY
    if not vocabulary.exists():
        return f"no model folder is written: {vocabulary} is missing; prepare the data again to have it"
    saved = newest_saved(storage, shape)
    whole = (  # one at a time: no rank need have the memory of the whole model
        WeightPiece(parameter=name, box=Box.whole(size), data=saved.read(WEIGHTS, name))
        for name, size in saved.shapes.items()
    )
    words = ModelVocabulary(vocabulary=read_vocabulary(vocabulary), is_cased=dataset.manifest.plan.cased)
    with storage.beside() as beside:
        plan = ModelPlan(shape=shape, sizes=saved.shapes)
        folder = write_model(beside, plan, whole, described(config_of(shape, CLASS), words.files()))
    return f"the model is in {storage}/{folder.name}"


def newest_saved(storage: Storage, shape: EncoderShape) -> SavedState:
    """Return the newest checkpoint; raise ForeignTensors if it holds another model than one of this shape."""
    newest = read_manifest(storage, storage.steps()[0])
    saved = SavedState(Resumed(storage=storage, manifest=newest, rejected=frozenset()))
    with torch.device("meta"):  # shapes alone: an engine may have cut the model that was trained
        model = BertForPreTraining(shape)
    saved.check(shapes_of(model))
    return saved
