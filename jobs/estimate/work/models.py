"""The models for which we ship recipes, by their numbers. A new one is one row of MODELS.

Parameters are those of the classes that train them, which a test counts on the meta device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slipway.jobs.estimate.work.shapes import Model

# The share of positions that masked-LM predicts, in the reference's data at both lengths (80 of 512).
_MASKED = 20 / 128


def _decoder(layers: int, hidden: int, heads: int, vocabulary: int, parameters: float) -> Model:
    return Model(
        layers=layers,
        hidden_size=hidden,
        heads=heads,
        feed_forward=4 * hidden,
        vocabulary=vocabulary,
        sequence_length=2048,
        causal=True,
        parameters=parameters,
    )


def _bert(layers: int, hidden: int, heads: int, sequence: int, parameters: float) -> Model:
    own = _decoder(layers, hidden, heads, 30522, parameters)
    return replace(own, sequence_length=sequence, causal=False, head_share=_MASKED)


def _classifier(layers: int, vocabulary: int, parameters: float) -> Model:
    """Describe BERT's base width with a classification head: no position reaches the vocabulary."""
    own = _decoder(layers, 768, 12, vocabulary, parameters)
    return replace(own, sequence_length=128, causal=False, head_share=0.0)


MODELS: Mapping[str, Model] = {
    "bert-base": _bert(12, 768, 12, 128, 110_106_428),
    "bert-large": _bert(24, 1024, 16, 128, 336_226_108),
    "bert-large-512": _bert(24, 1024, 16, 512, 336_226_108),
    "bert-1.5b": _bert(48, 1600, 25, 128, 1_530_379_324),
    "bert-1.5b-512": _bert(48, 1600, 25, 512, 1_530_379_324),
    "bert-tiny": _bert(2, 128, 2, 128, 4_433_468),
    "bert-base-cased": _classifier(12, 28996, 108_311_810),
    "bert-base-uncased": _classifier(12, 30522, 109_483_778),
    "distilbert": _classifier(6, 30522, 66_955_010),
    "gpt-j-tiny": replace(_decoder(4, 64, 4, 1280, 363_648), sequence_length=128),
    "gpt-j-6b": _decoder(28, 4096, 16, 50400, 6_050_882_784),
    "pythia-6.9b": _decoder(32, 4096, 32, 50432, 6_857_302_016),
    "gpt-neox-20b": _decoder(44, 6144, 64, 50432, 20_554_567_680),
}


def length_name(name: str, sequence_length: int) -> str:
    """Return the name under which measurements have this model and length: bert-large-512.

    A rate at one length says little about another, so calibration treats them as different models.
    """
    known = MODELS.get(name)
    if known is not None and known.sequence_length == sequence_length:
        return name
    return f"{name}-{sequence_length}"


def shape_of(name: str) -> Model | None:
    """Return the model of this name, with or without a length in it; None if it is not ours."""
    return MODELS.get(name) or MODELS.get(name.rpartition("-")[0])


def length_of(name: str, model: Model) -> int:
    """Return the sequence length in a name, as length_name writes it; else the model's own."""
    last = name.rpartition("-")[2]
    return int(last) if name not in MODELS and last.isdecimal() else model.sequence_length
