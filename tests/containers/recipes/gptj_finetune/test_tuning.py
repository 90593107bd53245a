"""A GPT-J is tuned the same in every layout and resume, and transformers gives the same answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from slipway.containers.data.glue.tasks import TASKS
from slipway.containers.data.glue.texts import open_table, read_texts
from slipway.containers.recipes.gptj_finetune.data import LABEL_WORDS, PROMPT
from slipway.containers.runtime.errors import MISTAKE_EXIT_CODE
from tests.containers.recipes.trainings import Trained, check_scores, close, transformers_model

STEPS, SAVED_AFTER, LENGTH = 4, 2, 48
# engines/native/test_layouts.py trains in all other layouts, and training/test_layout_table.py trains this
# model.
LAYOUTS = ("optimizer2", "pp2", "tp2-pp2")
RESUMED = ("tp2-pp2-in-hybrid", "optimizer2-in-alone")
ABOVE_CHANCE = 0.25

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained.make("tests.containers.recipes.gptj_finetune.tuned", tmp_path_factory.mktemp("tuned"))


@pytest.mark.parametrize("name", ["padded", *LAYOUTS])
def test_every_layout_has_the_losses_and_norms_of_one_process(tuned: Trained, name: str) -> None:
    assert set(tuned.codes[name]) == {0}, tuned.said(name)
    assert len(tuned.numbers(name)) == STEPS
    assert tuned.numbers(name) == close(tuned.numbers("alone"))
    assert tuned.scores(name) == pytest.approx(tuned.scores("alone"), rel=1e-4)


@pytest.mark.parametrize("name", RESUMED)
def test_a_checkpoint_goes_on_in_another_layout(tuned: Trained, name: str) -> None:
    assert set(tuned.codes[name]) == {0}, tuned.said(name)
    assert tuned.numbers(name) == close(tuned.numbers("alone")[SAVED_AFTER:])


def test_moods_that_were_never_seen_are_told_far_above_chance(tuned: Trained) -> None:
    assert tuned.codes["learned"] == [0], tuned.said("learned")
    assert tuned.scores("learned")["accuracy"] > 0.5 + ABOVE_CHANCE


def test_stages_are_cut_by_what_layers_take_here(tuned: Trained) -> None:
    assert "layers, by what they take here" in tuned.said("pp2")


def test_transformers_tells_the_same_moods_of_the_exported_model(tuned: Trained) -> None:
    theirs = transformers_model(tuned.model("learned"), "GPTJForCausalLM")
    right = sum(answers(theirs, tuned))
    assert right / 240 == tuned.scores("learned")["accuracy"]


def test_the_folder_that_the_platform_keeps_has_the_same_model(tuned: Trained) -> None:
    kept, left = tuned.folder / "archives" / "tp2-pp2", tuned.model("tp2-pp2")
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == {
        path.name: path.read_bytes() for path in left.iterdir()
    }


@pytest.mark.parametrize("name", ["tp2-pp2", "lora-tp2-pp2"])
def test_the_exported_model_scores_words_as_transformers_does(tuned: Trained, name: str) -> None:
    check_scores(tuned.model(name), "GPTJForCausalLM", words=1198, length=LENGTH)


def test_adapters_train_alike_in_layouts_and_leave_the_frozen_weights(tuned: Trained) -> None:
    assert tuned.codes["lora"] == [0], tuned.said("lora")
    assert set(tuned.codes["lora-tp2-pp2"]) == {0}, tuned.said("lora-tp2-pp2")
    assert tuned.numbers("lora-tp2-pp2") == close(tuned.numbers("lora"))
    before, after = (weights(path) for path in (tuned.folder / "data" / "published", tuned.model("lora")))
    changed = {name.rpartition("attn.")[2] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"q_proj.weight", "v_proj.weight"}
    saved = sum(path.stat().st_size for path in (tuned.folder / "checkpoints" / "lora").glob("step-*/*"))
    assert saved < sum(tensor.nbytes for tensor in before.values()) / 4


def test_adapters_merge_into_published_weights_by_the_rule_of_peft(tuned: Trained) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    place = tuned.folder / "checkpoints" / "lora" / "adapter"
    settings = json.loads((place / "adapter_config.json").read_text())
    assert (settings["peft_type"], settings["target_modules"]) == ("LORA", ["q_proj", "v_proj"])
    adapters = safetensors.load_file(place / "adapter_model.safetensors")
    merged, wanted = weights(tuned.folder / "data" / "published"), weights(tuned.model("lora"))
    for name, down in adapters.items():
        if name.endswith(".lora_A.weight"):
            up = adapters[name.replace("lora_A", "lora_B")]
            target = name.removeprefix("base_model.model.").replace(".lora_A", "")
            merged[target] = merged[target] + settings["lora_alpha"] / settings["r"] * (up @ down)
    for name, tensor in wanted.items():
        torch.testing.assert_close(merged[name], tensor, rtol=1e-6, atol=1e-7)


def test_json_lines_are_learned_and_measured_on_other_text(tuned: Trained) -> None:
    assert set(tuned.codes["text"]) == {0}, tuned.said("text")
    losses = [loss for loss, _ in tuned.numbers("text")]
    assert losses[-1] < losses[0]
    assert set(tuned.scores("text")) == {"loss"}


def test_fp16_trains_with_a_loss_scale(tuned: Trained) -> None:
    assert tuned.codes["fp16"] == [0], tuned.said("fp16")
    assert all(record["loss_scale"] >= 1 for record in tuned.records("fp16").values())


def test_a_batch_of_more_rows_than_there_are_is_refused(tuned: Trained) -> None:
    assert tuned.codes["short"] == [MISTAKE_EXIT_CODE]
    assert "the data has 64 rows, and a batch 4096; set global_batch to at most 64" in tuned.said("short")


def answers(model: Any, tuned: Trained) -> list[bool]:
    """Return for each held-out sentence True if transformers finds its label's word the likelier one."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tuned.model("learned") / "tokenizer.json")
    )
    (split,) = TASKS["sst2"].dev
    table = open_table(str(tuned.folder / "data" / "sst2"), TASKS["sst2"], split)
    texts = read_texts(table, *table.pieces(1 << 30))
    (words,) = {tuple(tokenizer(word).input_ids[0] for word in LABEL_WORDS)}
    found = []
    for text, label in zip(texts.first, texts.labels, strict=True):
        prompt = torch.tensor([tokenizer(text.strip() + PROMPT).input_ids])
        with torch.inference_mode():
            scores = model(prompt).logits[0, -1]
        other = scores[words[1 - int(label)]]
        found.append(bool(scores[words[int(label)]] > other))
    return found


def weights(place: Path) -> dict[str, Tensor]:
    safetensors = pytest.importorskip("safetensors.torch")
    found: dict[str, Tensor] = safetensors.load_file(place / "model.safetensors")
    return found
