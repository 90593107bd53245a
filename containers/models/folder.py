"""A model as a folder of Hugging Face's: config.json, vocab.txt, model.safetensors, tokenizer_config.json."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from torch import Tensor

from slipway.containers.data.tokens.vocabulary import Vocabulary, write_vocabulary
from slipway.containers.runtime.checkpoint.tensor_file import write_tensors
from slipway.containers.runtime.checkpoint.tensors import from_torch

CONFIG, VOCABULARY, WEIGHTS, TOKENIZER = (
    "config.json",
    "vocab.txt",
    "model.safetensors",
    "tokenizer_config.json",
)
FOLDER = "model"


def write_folder(
    beside: Path,
    *,
    config: Mapping[str, object],
    tensors: Iterable[tuple[str, Tensor]],
    vocabulary: Vocabulary,
    is_cased: bool,
) -> Path:
    """Write the folder `model` atomically; replace one that was there."""
    unfinished, finished = beside / f".{FOLDER}-unfinished", beside / FOLDER
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    write_tensors(unfinished / WEIGHTS, from_torch(dict(tensors)))
    write_vocabulary(vocabulary, unfinished / VOCABULARY)
    _write_object(unfinished / CONFIG, config)
    _write_object(unfinished / TOKENIZER, {"do_lower_case": not is_cased, "tokenizer_class": "BertTokenizer"})
    shutil.rmtree(finished, ignore_errors=True)
    unfinished.rename(finished)
    return finished


def _write_object(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
