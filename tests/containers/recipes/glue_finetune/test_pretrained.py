"""A model folder of Hugging Face gives the same logits here; an error in one is told in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from slipway.containers.data.errors import DataError
from slipway.containers.data.glue.tasks import TASKS
from slipway.containers.data.samples.model_sample import sample_vocabulary
from slipway.containers.data.tokens.engine import write_vocabulary
from slipway.containers.models.encoder import Classifier, classification_loss
from slipway.containers.models.published import load_weights
from slipway.containers.recipes.glue_finetune.model import HEAD
from slipway.containers.recipes.glue_finetune.pretrained import (
    Pretrained,
    read_pretrained,
    refuse_long_rows,
    write_classifier,
)
from slipway.containers.runtime.errors import Refusal

ENTRIES = len(sample_vocabulary().entries)


def reference(kind: str, labels: int, folder: Path) -> Any:
    """Save a model of transformers' own class with random weights."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    configs = {
        "bert": lambda: transformers.BertConfig(
            vocab_size=ENTRIES,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=128,
            max_position_embeddings=64,
            num_labels=labels,
        ),
        "distilbert": lambda: transformers.DistilBertConfig(
            vocab_size=ENTRIES,
            dim=32,
            n_layers=2,
            n_heads=4,
            hidden_dim=128,
            max_position_embeddings=64,
            num_labels=labels,
        ),
    }
    made = transformers.AutoModelForSequenceClassification.from_config(configs[kind]())
    with torch.no_grad():  # biases and norms begin equal, so that a swap of two would not show
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    made.save_pretrained(folder)
    write_vocabulary(sample_vocabulary(), folder / "vocab.txt")
    return made.eval()


def rows() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    words = torch.randint(1, ENTRIES, (5, 20), generator=generator)
    mask = torch.arange(20) < torch.tensor([20, 7, 13, 1, 19])[:, None]
    return {"words": words * mask, "segments": (torch.arange(20) >= 6) * mask, "mask": mask}


def packed(rows: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Lay the rows end to end, as the model takes them."""
    used = rows["mask"]
    return {
        "words": rows["words"][used],
        "segments": rows["segments"][used].long(),
        "lengths": used.sum(1),
    }


def their_rows(kind: str, ours: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    given = {"input_ids": ours["words"], "attention_mask": ours["mask"].long()}
    return given | ({"token_type_ids": ours["segments"].long()} if kind == "bert" else {})


def loaded(pretrained: Pretrained, outputs: int) -> Classifier:
    model = Classifier(pretrained.shape, outputs)
    assert load_weights(model, pretrained.tensors) == []
    model.eval()
    return model


@pytest.mark.filterwarnings("ignore")  # of what transformers imports
@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_logits_and_gradients_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    theirs = reference(kind, 3, tmp_path)
    ours = loaded(read_pretrained(str(tmp_path)), 3)
    inputs, labels = rows(), torch.tensor([0, 1, 2, 1, 0])
    found, expected = ours(**packed(inputs)), theirs(**their_rows(kind, inputs), labels=labels)
    torch.testing.assert_close(found, expected.logits, rtol=1e-5, atol=1e-5)
    loss = classification_loss(found, labels.float())
    torch.testing.assert_close(loss, expected.loss, rtol=1e-5, atol=1e-5)
    loss.backward()
    expected.loss.backward()
    words = dict(theirs.named_parameters())[f"{kind}.embeddings.word_embeddings.weight"]
    torch.testing.assert_close(ours.embeddings.words.weight.grad, words.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_what_is_saved_at_the_end_is_a_model_that_transformers_loads(kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    reference(kind, 1, tmp_path / "given")
    pretrained = read_pretrained(str(tmp_path / "given"))
    ours = loaded(pretrained, 1)
    write_classifier(tmp_path, ours, dict(ours.named_parameters()), pretrained, TASKS["stsb"])
    theirs, told = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "model", output_loading_info=True
    )
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    inputs = rows()
    found = theirs.eval()(**their_rows(kind, inputs)).logits
    torch.testing.assert_close(found, ours(**packed(inputs)), rtol=1e-5, atol=1e-5)


def test_a_classifier_of_another_task_begins_fresh(data: Path) -> None:
    pretrained = read_pretrained(str(data / "bert"))
    model = Classifier(pretrained.shape, 3)
    before = model.classifier.weight.clone()
    assert load_weights(model, pretrained.tensors, HEAD) == ["classifier"]
    assert torch.equal(model.classifier.weight, before)


@pytest.mark.parametrize("missing", ["config.json", "vocab.txt", "model.safetensors"])
def test_a_directory_without_a_file_names_it(data: Path, tmp_path: Path, missing: str) -> None:
    folder = copied(data, tmp_path)
    (folder / missing).unlink()
    with pytest.raises(Refusal, match=f"has no {missing}; give a whole model directory"):
        read_pretrained(str(folder))


def test_a_model_that_brings_its_own_code_is_refused(data: Path, tmp_path: Path) -> None:
    """BI-157: we do not have its type, whatever auto_map says."""
    folder = copied(data, tmp_path)
    change(folder, model_type="nomic_bert", auto_map={"AutoModel": "modeling.Evil"})
    with pytest.raises(Refusal, match=r"model type 'nomic_bert'.* no code of a model is run"):
        read_pretrained(str(folder))


def test_nothing_is_fetched_from_a_hub(tmp_path: Path) -> None:
    with pytest.raises(
        Refusal, match=r"there is no model directory .*; nothing is fetched from a hub: put config"
    ):
        read_pretrained(str(tmp_path / "bert-base-uncased"))


def test_a_vocabulary_that_does_not_fit_the_model_is_refused(data: Path, tmp_path: Path) -> None:
    folder = copied(data, tmp_path)
    with (folder / "vocab.txt").open("a") as file:
        file.write("another\n")
    with pytest.raises(Refusal, match=f"has {ENTRIES + 1} entries, but the model knows {ENTRIES}"):
        read_pretrained(str(folder))


def test_a_decoder_is_refused_by_its_name(data: Path, tmp_path: Path) -> None:
    folder = copied(data, tmp_path)
    decoder = {"n_embd": 64, "n_layer": 2, "n_head": 2, "rotary_dim": 8, "n_positions": 128}
    change(folder, model_type="gptj", **decoder)
    with pytest.raises(Refusal, match="is a gptj, which this recipe does not train"):
        read_pretrained(str(folder))


def test_rows_longer_than_the_model_s_places_are_refused(data: Path) -> None:
    with pytest.raises(DataError, match=r"max_length is 256, but .* has 128 positions; set max_length=128"):
        refuse_long_rows(read_pretrained(str(data / "bert")), 256)


def test_capitals_are_kept_where_the_directory_or_its_vocabulary_says_so(data: Path, tmp_path: Path) -> None:
    folder = copied(data, tmp_path)
    assert not read_pretrained(str(folder)).words.is_cased
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert read_pretrained(str(folder)).words.is_cased
    (folder / "tokenizer_config.json").unlink()
    text = (folder / "vocab.txt").read_text()
    (folder / "vocab.txt").write_text(text.replace("\nb\n", "\nB\n"))
    assert read_pretrained(str(folder)).words.is_cased


def copied(data: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(data / "bert", tmp_path / "bert"))


def change(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
