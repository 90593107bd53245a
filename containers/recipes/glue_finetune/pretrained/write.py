"""The fine-tuned model as a directory that transformers loads, next to the checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from slipway.containers.data.glue.tasks import Task
from slipway.containers.models.folder import write_folder
from slipway.containers.models.heads import Classifier
from slipway.containers.recipes.glue_finetune.pretrained.read import Pretrained
from slipway.containers.recipes.glue_finetune.pretrained.weights import their_tensors

_CLASSES: Mapping[str, str] = {
    "bert": "BertForSequenceClassification",
    "distilbert": "DistilBertForSequenceClassification",
}


def write_model(
    beside: Path, model: Classifier, weights: Mapping[str, Tensor], pretrained: Pretrained, task: Task
) -> Path:
    """Write the model atomically; replace one that was there."""
    return write_folder(
        beside,
        config={**pretrained.config, **_head(task, pretrained.shape.family)},
        tensors=their_tensors(model, weights),
        vocabulary=pretrained.vocabulary,
        is_cased=pretrained.cased,
    )


def _head(task: Task, kind: str) -> dict[str, object]:
    names = task.labels or ("score",)
    return {
        "architectures": [_CLASSES[kind]],
        "finetuning_task": task.name,
        "problem_type": "regression" if task.is_regression else "single_label_classification",
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
    }
