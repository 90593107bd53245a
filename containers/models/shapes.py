"""What an encoder's numbers are: BERT's published sizes, and the names that config.json has for the rest.

Another published size is one row of BERT_SIZES. No framework here: what only counts needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Names of config.json to ours. What TinyBERT and others call gelu_new is the formula of gelu_pytorch_tanh.
ENCODER_ACTIVATIONS: Mapping[str, str] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
VOCABULARY = 30522  # bert-base-uncased; a vocabulary of another size gives its own number


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderShape:
    """Describe a BERT or DistilBERT; what is not said is as Devlin et al. 2018 have it."""

    family: str = "bert"  # a key of names.PARAMETER_NAMES
    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocabulary: int = VOCABULARY
    vocabulary_rows: int | None = None  # of the embeddings, for kernels that like multiples; None: one each
    positions: int = 512
    segments: int = 2  # 0: the model does not tell the sentences of a pair apart
    activation: str = "gelu"  # a key of encoder.ACTIVATIONS
    norm_epsilon: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.1
    head_dropout: float = 0.1  # before a classifier

    @property
    def word_rows(self) -> int:
        return self.vocabulary_rows or self.vocabulary


def bert(layers: int, hidden: int, heads: int) -> EncoderShape:
    """Return a shape whose layers are four times as wide inside, as all of BERT's published sizes are."""
    return EncoderShape(layers=layers, hidden=hidden, heads=heads, intermediate=4 * hidden)


BERT_SIZES: Mapping[str, EncoderShape] = {
    "base": bert(12, 768, 12),
    "large": bert(24, 1024, 16),
    "1.5b": bert(48, 1600, 25),
    "tiny": bert(2, 128, 2),
}
