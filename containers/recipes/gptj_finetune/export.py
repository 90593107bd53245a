"""The tuned model as a folder that transformers loads, and what LoRA trained as one that peft does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from slipway.containers.models.adapters import ADAPTED, adapters_of, is_adapter, merged, peft_names
from slipway.containers.models.decoder import Decoder
from slipway.containers.models.folder import ModelPlan, WeightPiece, described, json_bytes, write_model
from slipway.containers.recipes.gptj_finetune.config import GptjConfig
from slipway.containers.recipes.gptj_finetune.model import StartingModel, build_model
from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.resume import Resumed
from slipway.containers.runtime.checkpoint.storage import Storage
from slipway.containers.runtime.checkpoint.tensor_file import write_tensors
from slipway.containers.runtime.checkpoint.tensors import encode_tensor
from slipway.containers.runtime.checkpoint.verify import read_manifest
from slipway.containers.training.engines.native.engine import initial_weights
from slipway.containers.training.start import shapes_of
from slipway.containers.training.state import WEIGHTS, SavedState

ADAPTER = "adapter"


def export(storage: Storage, config: GptjConfig, origin: StartingModel, archive: str | None) -> Iterator[str]:
    """Write the model of the newest checkpoint beside it, by tensors, and to the folder that the platform
    keeps; yield a line for each folder."""
    newest = read_manifest(storage, storage.steps()[0])
    saved = SavedState(Resumed(storage=storage, manifest=newest, rejected=frozenset()))
    model = build_model(config, origin)
    saved.check(shapes_of(model))
    with torch.device("meta"):
        sizes = {name: tuple(each.shape) for name, each in Decoder(origin.shape).named_parameters()}
    tuned = TunedWeights(saved, model, config)
    with storage.beside() as beside:
        pieces = (
            WeightPiece(parameter=name, box=Box.whole(size), data=tuned.read(name))
            for name, size in sizes.items()
        )
        plan = ModelPlan(shape=origin.shape, sizes=sizes)
        folder = write_model(beside, plan, pieces, described(origin.config, origin.carried))
        yield f"the model is in {storage}/{folder.name}"
        if archive is not None:
            shutil.copytree(folder, archive, dirs_exist_ok=True)
            yield f"the model is in {archive}, which the platform keeps"
        if config.lora_rank:
            write_adapter(beside / ADAPTER, tuned.adapters(), config, origin)
            yield f"what was trained of it alone is in {storage}/{ADAPTER}"


class TunedWeights:
    """Read a tuned model's parameters, one at a time: as they were saved, or what adapters make of others."""

    def __init__(self, saved: SavedState, model: Decoder, config: GptjConfig) -> None:
        self._saved, self._model, self._config = saved, model, config
        self._sizes = {name: parameter.shape for name, parameter in model.named_parameters()}
        self._initial = initial_weights(model, config.seed)

    def read(self, name: str) -> Tensor:
        if not self._config.lora_rank:
            return self._saved.read(WEIGHTS, name)
        size = self._sizes[name]
        whole = self._initial(name, size)(Box.whole(size))
        pairs = {
            which: (self._saved.read(WEIGHTS, down), self._saved.read(WEIGHTS, up))
            for which, (down, up) in adapters_of(name).items()
        }
        scale = self._config.lora_alpha / self._config.lora_rank
        return merged(whole, self._model.shape, scale, pairs) if pairs else whole

    def adapters(self) -> dict[str, Tensor]:
        return {name: self._saved.read(WEIGHTS, name) for name in self._sizes if is_adapter(name)}


def write_adapter(
    folder: Path, adapters: Mapping[str, Tensor], config: GptjConfig, origin: StartingModel
) -> None:
    """Write adapters as peft loads and merges them."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        theirs: encode_tensor(theirs, tensor.to(torch.float32))
        for name, tensor in adapters.items()
        for theirs in peft_names(name)
    }
    write_tensors(folder / "adapter_model.safetensors", tensors)
    settings: Mapping[str, object] = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": origin.place,
        "r": config.lora_rank,
        "lora_alpha": config.lora_alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "target_modules": [module for module, _ in ADAPTED.values()],
    }
    disk.replace_file(folder / "adapter_config.json", json_bytes(settings), token=f"{os.getpid()}.new")
