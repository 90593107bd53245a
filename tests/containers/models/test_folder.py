"""A model's folder is whole or not there, and replaces the one before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from slipway.containers.data.tokens.vocabulary import SPECIAL, Vocabulary  # noqa: E402
from slipway.containers.models.folder import write_folder  # noqa: E402

WORDS = Vocabulary(entries=(*SPECIAL, "the"))


def write(beside: Path, hidden: int) -> Path:
    tensors = [("bert.w", torch.ones(hidden))]
    return write_folder(
        beside, config={"hidden_size": hidden}, tensors=tensors, vocabulary=WORDS, is_cased=True
    )


def test_a_new_model_replaces_the_one_before(tmp_path: Path) -> None:
    write(tmp_path, 4)
    folder = write(tmp_path, 8)
    assert json.loads((folder / "config.json").read_text()) == {"hidden_size": 8}
    assert json.loads((folder / "tokenizer_config.json").read_text())["do_lower_case"] is False
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_write_that_ends_half_way_leaves_the_model_that_was_there(tmp_path: Path) -> None:
    folder = write(tmp_path, 4)
    with pytest.raises(TypeError):
        write_folder(tmp_path, config={"bad": object()}, tensors=[], vocabulary=WORDS, is_cased=True)
    assert json.loads((folder / "config.json").read_text()) == {"hidden_size": 4}
    assert write(tmp_path, 8) == folder
