"""The trained model as a folder that transformers loads, from its last checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from slipway.containers.models.config_writing import config_of
from slipway.containers.models.decoder import Decoder, DecoderShape
from slipway.containers.models.folder import ModelPlan, WeightPiece, described, write_model
from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.resume import Resumed
from slipway.containers.runtime.checkpoint.storage import Storage
from slipway.containers.runtime.checkpoint.verify import read_manifest
from slipway.containers.training.start import shapes_of
from slipway.containers.training.state import WEIGHTS, SavedState

CLASS = "GPTNeoXForCausalLM"


def export(storage: Storage, shape: DecoderShape) -> str:
    """Write the model of the newest checkpoint beside it, a tensor at a time; return a line that says so."""
    newest = read_manifest(storage, storage.steps()[0])
    saved = SavedState(Resumed(storage=storage, manifest=newest, rejected=frozenset()))
    with torch.device("meta"):  # shapes alone: an engine has cut the model that was trained
        sizes = shapes_of(Decoder(shape))
    saved.check(sizes)

    def pieces() -> Iterator[WeightPiece]:
        for name, size in sizes.items():
            yield WeightPiece(parameter=name, box=Box.whole(size), data=saved.read(WEIGHTS, name))

    with storage.beside() as beside:
        plan = ModelPlan(shape=shape, sizes=sizes)
        folder = write_model(beside, plan, pieces(), described(config_of(shape, CLASS), {}))
    return f"the model is in {storage}/{folder.name}"
