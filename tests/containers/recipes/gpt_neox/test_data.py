"""All readers together train on the same rows, however many they are, and each row once."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import numpy as np

from slipway.containers.data.samples.texts import sample_vocabulary
from slipway.containers.models.configs import config_of
from slipway.containers.models.published import ModelFolder, open_model
from slipway.containers.recipes.gpt_neox.config import decode
from slipway.containers.recipes.gpt_neox.data import (
    Corpus,
    RandomTokens,
    TokenBatches,
    TokenRows,
    check_tokens,
)
from slipway.containers.recipes.gpt_neox.model import SIZES
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.layout import BatchPlan
from slipway.containers.training.start import Beginning
from tests.containers.training.engines.native.trainings import PROCESSOR


class Numbered:
    """Return rows that hold their own number."""

    def rows(self, numbers: Sequence[int]) -> TokenRows:
        return np.repeat(np.array(numbers)[:, None], 5, axis=1)


CORPUS = Corpus("numbers", Numbered(), "numbers 4", 1000)


def taken(readers: int, step: int) -> list[list[int]]:
    """Return the rows of each micro-batch of a step, reader after reader."""
    plan = BatchPlan(micro_batch=2, accumulation_steps=8 // readers, readers=readers)
    found = []
    for reader in range(readers):
        batches = TokenBatches(plan=plan, reader=reader, seed=1, device=PROCESSOR)
        with batches.open(CORPUS, beginning(step)) as steps:
            batch = next(steps)
        assert (batch.rows, batch.tokens) == (16, 64)
        found += [each.inputs["words"][:, 0].tolist() for each in batch.micro_batches]  # type: ignore[index]  # words
    return found


def beginning(step: int) -> Beginning:
    return Beginning(step=step, cursor={"corpus": CORPUS.identity, "rows": 16 * step}, folder="there")


@pytest.mark.parametrize("readers", [1, 2, 4])
def test_a_step_takes_the_same_micro_batches_on_any_number_of_readers(readers: int) -> None:
    assert taken(readers, 0) == [[row, row + 1] for row in range(0, 16, 2)]
    assert taken(readers, 3)[0] == [48, 49]


def test_labels_are_the_words_one_further() -> None:
    tokens = RandomTokens(4, 1, 100)
    plan = BatchPlan(micro_batch=2, accumulation_steps=1, readers=1)
    batches = TokenBatches(plan=plan, reader=0, seed=1, device=PROCESSOR)
    (only,) = batches.step_batch(Corpus("random", tokens, "random 4", 100), 0).micro_batches
    rows = tokens.rows([0, 1])
    assert only.inputs["words"].tolist() == rows[:, :-1].tolist()  # type: ignore[union-attr]  # never None
    assert only.inputs["labels"].tolist() == rows[:, 1:].tolist()  # type: ignore[union-attr]  # likewise
    assert not (rows[0] == rows[1]).all()


@pytest.mark.parametrize(("size", "rows"), [(None, 100), (1000, 100), (10, 8)])
def test_no_row_is_measured_twice(size: int | None, rows: int) -> None:
    measured = []
    for reader in range(2):
        plan = BatchPlan(micro_batch=2, accumulation_steps=1, readers=2)
        batches = TokenBatches(plan=plan, reader=reader, seed=1, device=PROCESSOR)
        config = decode({"evaluate_every": "1", "held_out": "there", "held_out_rows": "100"})
        held_out = batches.held_out(replace(CORPUS, size=size), config)
        assert held_out is not None
        assert held_out.rows == rows
        with held_out.open() as opened:
            measured += [row for inputs in opened for row in inputs["words"][:, 0].tolist()]  # type: ignore[index]  # words
    assert sorted(measured) == list(range(rows))
    with pytest.raises(Refusal, match="numbers has 3 rows, and all ranks together measure on 4 at once"):
        batches.held_out(replace(CORPUS, size=3), config)


def test_a_checkpoint_of_other_tokens_is_refused() -> None:
    plan = BatchPlan(micro_batch=2, accumulation_steps=1, readers=1)
    batches = TokenBatches(plan=plan, reader=0, seed=1, device=PROCESSOR)
    other = Corpus("others", Numbered(), "others 4", 1000)
    said = "there was trained on other tokens, or rows of another length, than others"
    with pytest.raises(Refusal, match=re.escape(said)), batches.open(other, beginning(2)):
        pass


def open_published(folder: Path, files: dict[str, bytes]) -> ModelFolder:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config_of(SIZES["tiny"], "GPTNeoXForCausalLM")))
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return open_model(str(folder))


def test_tokens_of_another_vocabulary_than_the_model_s_are_refused_however_it_is_written(
    tmp_path: Path,
) -> None:
    own = json.loads(sample_vocabulary())
    first, second, *rest = own["model"]["vocab"]
    swapped = {first: own["model"]["vocab"][second], second: own["model"]["vocab"][first]}
    other = {**own, "model": {**own["model"], "vocab": {**own["model"]["vocab"], **swapped}}}
    assert rest
    prefix = tmp_path / "tokens" / "tokens"
    prefix.parent.mkdir()
    (prefix.parent / "tokenizer.json").write_bytes(json.dumps(own, indent=1).encode())
    said: list[str] = []
    same = open_published(tmp_path / "same", {"tokenizer.json": sample_vocabulary()})
    check_tokens(prefix, same, said.append)
    assert not said
    differs = open_published(tmp_path / "other", {"tokenizer.json": json.dumps(other).encode()})
    with pytest.raises(Refusal, match=r"tokens of another vocabulary \(sha256 [0-9a-f]{12}\) than .*/other"):
        check_tokens(prefix, differs, said.append)


def test_tokens_that_nobody_can_compare_with_the_model_are_said_to_be_unchecked(tmp_path: Path) -> None:
    said: list[str] = []
    bare = open_published(tmp_path / "bare", {"generation_config.json": b"{}"})
    known = open_published(tmp_path / "known", {"tokenizer.json": sample_vocabulary()})
    (tmp_path / "tokenizer.json").write_bytes(sample_vocabulary())
    check_tokens(tmp_path / "tokens", bare, said.append)
    (tmp_path / "elsewhere").mkdir()
    check_tokens(tmp_path / "elsewhere" / "tokens", known, said.append)
    assert [line.partition(" has no vocabulary: ")[0] for line in said] == [
        str(tmp_path / "bare"),
        str(tmp_path / "elsewhere"),
    ]
