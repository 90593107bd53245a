"""The fine-tuned model as a directory that transformers loads, next to the checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from slipway.containers.data.glue.tasks import Task
from slipway.containers.models.folder import ModelPlan, WeightPiece, described, write_model
from slipway.containers.models.heads import Classifier
from slipway.containers.recipes.glue_finetune.pretrained.read import Pretrained
from slipway.containers.runtime.checkpoint.boxes import Box

_CLASSES: Mapping[str, str] = {
    "bert": "BertForSequenceClassification",
    "distilbert": "DistilBertForSequenceClassification",
}


def write_classifier(
    beside: Path, model: Classifier, weights: Mapping[str, Tensor], pretrained: Pretrained, task: Task
) -> Path:
    """Write the model atomically; replace one that was there."""
    plan = ModelPlan(shape=model.shape, sizes={name: tuple(tensor.shape) for name, tensor in weights.items()})
    pieces = (
        WeightPiece(parameter=name, box=Box.whole(tensor.shape), data=tensor)
        for name, tensor in weights.items()
    )
    config = {**pretrained.config, **_head(task, pretrained.shape.family)}
    return write_model(beside, plan, pieces, described(config, pretrained.pieces.files()))


def _head(task: Task, family: str) -> dict[str, object]:
    names = task.labels or ("score",)
    return {
        "architectures": [_CLASSES[family]],
        "finetuning_task": task.name,
        "problem_type": "regression" if task.is_regression else "single_label_classification",
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
    }
