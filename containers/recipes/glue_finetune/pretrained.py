"""Read the model directory that fine-tuning begins with, local or in S3, and write the fine-tuned model.

Both have Hugging Face's format, with the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from slipway.containers.data.errors import DataError
from slipway.containers.data.glue.tasks import Task
from slipway.containers.models.configs import Config
from slipway.containers.models.encoder import Classifier
from slipway.containers.models.folder import (
    ModelPlan,
    ModelVocabulary,
    described,
    read_model_vocabulary,
    write_model,
)
from slipway.containers.models.published import PublishedWeights, open_model
from slipway.containers.models.shapes import EncoderShape
from slipway.containers.runtime.errors import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretrained:
    place: str
    config: Config
    shape: EncoderShape
    words: ModelVocabulary
    tensors: PublishedWeights
    digest: str  # of the weights


def read_pretrained(place: str, *, bucket_owner: str | None = None) -> Pretrained:
    """Open a directory; its weights are read later, when a model loads them."""
    folder = open_model(place, bucket_owner=bucket_owner)
    if not isinstance(folder.shape, EncoderShape):
        raise Refusal(
            f"{folder.place} is a {folder.shape.family}, which this recipe does not train",
            hint="give a bert or distilbert",
        )
    words, weights = read_model_vocabulary(folder), folder.weights()
    return Pretrained(
        place=folder.place,
        config=folder.config,
        shape=folder.shape,
        words=words,
        tensors=weights,
        digest=weights.fingerprint(),
    )


def refuse_long_rows(pretrained: Pretrained, max_length: int) -> None:
    positions = pretrained.shape.positions
    if max_length > positions:
        raise DataError(
            f"max_length is {max_length}, but {pretrained.place} has {positions} positions",
            hint=f"set max_length={positions} or less",
        )


# The class of transformers that loads the fine-tuned model, by family.
_CLASSES: Mapping[str, str] = {
    "bert": "BertForSequenceClassification",
    "distilbert": "DistilBertForSequenceClassification",
}


def write_classifier(
    beside: Path, model: Classifier, weights: Mapping[str, Tensor], pretrained: Pretrained, task: Task
) -> Path:
    """Write the fine-tuned model to `beside` atomically, as a directory that transformers loads."""
    sizes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    names = task.labels or ("score",)
    config = {
        **pretrained.config,
        "architectures": [_CLASSES[pretrained.shape.family]],
        "finetuning_task": task.name,
        "problem_type": "regression" if task.is_regression else "single_label_classification",
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
    }
    files = described(config, pretrained.words.files())
    return write_model(beside, ModelPlan(shape=model.shape, sizes=sizes), weights.__getitem__, files)
