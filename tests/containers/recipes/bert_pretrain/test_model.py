"""The model is the published one, and its shortcuts change no number."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch

from slipway.containers.models.encoder import BertForPreTraining
from slipway.containers.models.shapes import BERT_SIZES
from slipway.containers.recipes.bert_pretrain.model import training_flops_per_token

# Devlin et al.'s heads on the encoder, as transformers' BertForPreTraining counts them.
TINY = replace(BERT_SIZES["tiny"], vocabulary=101, dropout=0.0, attention_dropout=0.0)
PARAMETERS = {"large": 336_226_108, "1.5b": 1_530_379_324}


@pytest.mark.parametrize("size", PARAMETERS)
def test_it_has_as_many_parameters_as_published(size: str) -> None:
    with torch.device("meta"):
        model = BertForPreTraining(BERT_SIZES[size])
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[size]


@pytest.mark.parametrize(
    ("size", "tokens", "giga"),
    [("large", 128, 2.04), ("large", 512, 2.16), ("1.5b", 128, 9.27), ("1.5b", 512, 9.63)],
)
def test_flops_per_token_are_those_that_a_counter_found(size: str, tokens: int, giga: float) -> None:
    assert training_flops_per_token(BERT_SIZES[size], tokens) / 1e9 == pytest.approx(giga, abs=0.01)


def test_it_computes_what_transformers_computes() -> None:
    pytest.importorskip("transformers")
    from scripts.transformers_bert import build_reference, reference_rows

    ours = BertForPreTraining(TINY)
    theirs = build_reference(ours)
    inputs = _rows(batch=5, tokens=32, predictions=6, vocabulary=101)
    found = ours(**inputs)
    expected = theirs(**reference_rows(inputs))
    torch.testing.assert_close(found.total, expected.loss)
    found.total.backward()
    expected.loss.backward()
    gradient = ours.embeddings.words.weight.grad
    torch.testing.assert_close(gradient, theirs.bert.embeddings.word_embeddings.weight.grad)


def test_rows_that_use_all_places_need_no_mask() -> None:
    model = BertForPreTraining(TINY)
    inputs = _rows(batch=2, tokens=16, predictions=3, vocabulary=101)
    inputs["mask"] = torch.ones_like(inputs["mask"])
    torch.testing.assert_close(model(**inputs).total, model(**{**inputs, "mask": None}).total)


def _rows(batch: int, tokens: int, predictions: int, vocabulary: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)

    def draw(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=generator)

    used = draw(tokens // 2, tokens + 1, batch)
    labels = draw(1, vocabulary, batch, predictions)
    labels[:, -1] = 0  # one position fewer than there is room for
    places = [1 + torch.randperm(tokens // 2 - 1, generator=generator)[:predictions] for _ in range(batch)]
    positions = torch.stack(places)
    positions[:, -1] = 0
    return {
        "words": draw(1, vocabulary, batch, tokens),
        "segments": draw(0, 2, batch, tokens),
        "mask": (torch.arange(tokens) < used[:, None]).to(torch.int8),
        "positions": positions,
        "labels": labels,
        "follows": draw(0, 2, batch),
    }
