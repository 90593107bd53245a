"""What fine-tuning begins with: a model directory as Hugging Face's, here or in S3, and its vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.containers.data.errors import DataError
from slipway.containers.data.tokens.vocabulary import Vocabulary
from slipway.containers.models.config_reading import Config
from slipway.containers.models.published import PublishedWeights, open_model
from slipway.containers.models.shapes import EncoderShape
from slipway.containers.models.vocabulary import ModelVocabulary, read_model_vocabulary
from slipway.containers.runtime.errors import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretrained:
    place: str
    config: Config
    shape: EncoderShape
    pieces: ModelVocabulary
    tensors: PublishedWeights
    digest: str  # of the weights

    @property
    def vocabulary(self) -> Vocabulary:
        return self.pieces.vocabulary

    @property
    def cased(self) -> bool:
        return self.pieces.is_cased


def read_pretrained(place: str, *, bucket_owner: str | None = None) -> Pretrained:
    """Open a directory; its weights are read where they are loaded."""
    folder = open_model(place, bucket_owner=bucket_owner)
    if not isinstance(folder.shape, EncoderShape):
        raise Refusal(
            f"{folder.place} is a {folder.shape.family}, which this recipe does not train",
            hint="give a bert or distilbert",
        )
    pieces, weights = read_model_vocabulary(folder), folder.weights()
    return Pretrained(
        place=folder.place,
        config=folder.config,
        shape=folder.shape,
        pieces=pieces,
        tensors=weights,
        digest=weights.fingerprint(),
    )


def refuse_long_rows(pretrained: Pretrained, max_length: int) -> None:
    places = pretrained.shape.positions
    if max_length > places:
        raise DataError(
            f"max_length is {max_length}, and {pretrained.place} has {places} places",
            hint=f"set max_length={places} or less",
        )
