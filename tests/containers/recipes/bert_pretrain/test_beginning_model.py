"""Pre-training begins with a published size, a config.json, or published weights; misfits are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="the extra 'compare' is not installed")

import torch
import transformers

from slipway.containers.data.rows.dataset import Dataset
from slipway.containers.models.encoder import BertForPreTraining
from slipway.containers.recipes.bert_pretrain.config import decode
from slipway.containers.recipes.bert_pretrain.model import build_model
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.settings import InvalidSettings

pytestmark = pytest.mark.filterwarnings("ignore")  # of what transformers imports


Build = Callable[..., BertForPreTraining]


@pytest.fixture
def model(data: Path, tmp_path: Path) -> dict[str, Any]:
    """A BERT of transformers beside the data, with the data's vocabulary."""
    entries = Dataset.open(data / "phase1").manifest.plan.vocabulary_entries
    config = transformers.BertConfig(
        vocab_size=entries + 3,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        hidden_act="gelu_new",
        hidden_dropout_prob=0.25,
        max_position_embeddings=128,
    )
    torch.manual_seed(5)
    theirs = transformers.BertForPreTraining(config)
    theirs.save_pretrained(tmp_path / "bert")
    shutil.copy(data / "phase1" / "vocab.txt", tmp_path / "bert")
    return {"folder": tmp_path, "theirs": theirs, "entries": entries}


@pytest.fixture
def build(model: dict[str, Any], data: Path) -> Build:
    contract = replace(read_contract({}), data=str(model["folder"]))

    def built(say: Callable[[str], None] = lambda line: None, **settings: str) -> BertForPreTraining:
        return build_model(decode(settings), contract, Dataset.open(data / "phase1"), say)

    return built


def test_a_size_has_the_vocabulary_of_the_data_in_a_multiple_of_eight_rows(
    model: dict[str, Any], build: Build
) -> None:
    found = build(size="tiny")
    assert found.shape.vocabulary == model["entries"]
    assert found.embeddings.words.weight.shape[0] % 8 == 0
    assert found.shape.dropout == 0.1


@pytest.mark.parametrize("path", ["bert", "bert/config.json"])
def test_a_config_json_is_taken_as_it_is(path: str, build: Build) -> None:
    shape = build(config=path).shape
    assert (shape.hidden, shape.intermediate, shape.activation) == (32, 48, "gelu_tanh")
    assert (shape.dropout, build(config=path, dropout="0").shape.dropout) == (0.25, 0.0)


def test_published_weights_are_where_it_begins(model: dict[str, Any], build: Build) -> None:
    found, theirs, words = build(start_from_model="bert"), model["theirs"], torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        hidden = found.eval().encode(words, torch.zeros_like(words), None)
        scores = found.words(hidden, found.embeddings.words.weight)[..., : found.shape.vocabulary]
        wanted = theirs.eval()(words).prediction_logits
    torch.testing.assert_close(scores, wanted, rtol=1e-4, atol=1e-5)


def test_heads_that_nobody_published_begin_random_and_that_is_said(
    model: dict[str, Any], build: Build
) -> None:
    model["theirs"].bert.save_pretrained(model["folder"] / "bert")
    said: list[str] = []
    build(said.append, start_from_model="bert")
    assert said == [
        f"next_sentence and words of the model start(s) random: {model['folder'] / 'bert'} has none that fit"
    ]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"vocab_size": 9000}, r"knows 9000 words, and .* has a vocabulary of"),
        ({"max_position_embeddings": 64}, "has 64 positions and 2 segments, and rows have 128 tokens"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish', and must be one of gelu"),
        (
            {"model_type": "distilbert", "dim": 8, "n_layers": 1, "n_heads": 1, "hidden_dim": 8},
            "is a distilbert",
        ),
    ],
)
def test_a_config_that_does_not_fit_is_refused(
    model: dict[str, Any], build: Build, changes: dict[str, object], told: str
) -> None:
    path = model["folder"] / "bert" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(Refusal, match=told):
        build(config="bert")


def test_weights_of_another_vocabulary_are_refused(model: dict[str, Any], build: Build) -> None:
    path = model["folder"] / "bert" / "vocab.txt"
    *lines, before, last = path.read_text().split()
    path.write_text("\n".join([*lines, last, before, ""]))
    with pytest.raises(Refusal, match="was prepared with another vocabulary than"):
        build(start_from_model="bert")


def test_a_config_and_a_model_folder_contradict_each_other() -> None:
    with pytest.raises(InvalidSettings, match="config and start_from_model: a model folder has its own"):
        decode({"config": "a.json", "start_from_model": "bert"})
