"""The fine-tuned model as a directory that transformers loads, next to the checkpoints."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from slipway.containers.data.glue.tasks import Task
from slipway.containers.data.tokens.vocabulary import write_vocabulary
from slipway.containers.recipes.glue_finetune.model import Classifier
from slipway.containers.recipes.glue_finetune.pretrained.read import (
    CONFIG,
    TOKENIZER,
    VOCABULARY,
    WEIGHTS,
    Pretrained,
)
from slipway.containers.recipes.glue_finetune.pretrained.weights import their_tensors
from slipway.containers.runtime.checkpoint.tensor_file import write_tensors
from slipway.containers.runtime.checkpoint.tensors import from_torch

FOLDER = "model"
_CLASSES: Mapping[str, str] = {
    "bert": "BertForSequenceClassification",
    "distilbert": "DistilBertForSequenceClassification",
}


def write_model(
    beside: Path, model: Classifier, weights: Mapping[str, Tensor], pretrained: Pretrained, task: Task
) -> Path:
    """Write the model atomically; replace one that was there."""
    unfinished, finished = beside / f".{FOLDER}-unfinished", beside / FOLDER
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    write_tensors(unfinished / WEIGHTS, from_torch(dict(their_tensors(model, weights))))
    write_vocabulary(pretrained.vocabulary, unfinished / VOCABULARY)
    _write_object(unfinished / CONFIG, {**pretrained.config, **_head(task, pretrained.shape.kind)})
    _write_object(
        unfinished / TOKENIZER, {"do_lower_case": not pretrained.cased, "tokenizer_class": "BertTokenizer"}
    )
    shutil.rmtree(finished, ignore_errors=True)
    unfinished.rename(finished)
    return finished


def _head(task: Task, kind: str) -> dict[str, object]:
    names = task.labels or ("score",)
    return {
        "architectures": [_CLASSES[kind]],
        "finetuning_task": task.name,
        "problem_type": "regression" if task.is_regression else "single_label_classification",
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
    }


def _write_object(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
