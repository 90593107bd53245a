"""A model and sentences in S3 are used like those of a folder: they are read from there, and not copied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("obstore")
pytest.importorskip("moto")

import torch

from slipway.containers.data.errors import DataError
from slipway.containers.data.samples.texts import write_task
from slipway.containers.models.published import load_weights
from slipway.containers.recipes.gptj_finetune.config import GptjConfig, decode
from slipway.containers.recipes.gptj_finetune.data import Tokeniser, open_data
from slipway.containers.recipes.gptj_finetune.model import StartingModel, build_model, open_origin
from tests.containers.recipes.gpt_neox.test_model import contract

BUCKET = "inputs-of-mine"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with some sentences, and a tiny GPT-J as a hub has it."""
    transformers = pytest.importorskip("transformers", reason="the extra 'compare' is not installed")
    made = tmp_path_factory.mktemp("inputs")
    write_task(made / "few", "sst2", train_rows=64)
    drawn, model = open_origin(decode({}), contract(made)), made / "model"
    tokens = {"bos_token_id": 0, "eos_token_id": 0}
    config = transformers.GPTJConfig(
        n_layer=4, n_embd=64, n_head=4, vocab_size=1280, rotary_dim=8, n_positions=256, **tokens
    )
    torch.manual_seed(0)
    transformers.GPTJForCausalLM(config).save_pretrained(model)
    for name, content in drawn.carried.items():
        (model / name).write_bytes(content)
    return made


@pytest.fixture
def bucket(s3: Any, folder: Path) -> str:
    s3.create_bucket(Bucket=BUCKET)
    for path in (path for path in folder.rglob("*") if path.is_file()):
        s3.put_object(Bucket=BUCKET, Key=f"mine/{path.relative_to(folder)}", Body=path.read_bytes())
    return f"s3://{BUCKET}/mine"


def test_what_lies_in_s3_is_what_lies_in_a_folder(folder: Path, bucket: str) -> None:
    here = decode({"model": "model", "data": "few"})
    there = decode({"model": f"{bucket}/model", "data": f"{bucket}/few"})
    one, other = open_origin(here, contract(folder)), open_origin(there, contract())
    assert (one.shape, one.config, one.carried) == (other.shape, other.config, other.carried)
    for (name, tensor), again in zip(weights(here, one).items(), weights(there, other).values(), strict=True):
        assert torch.equal(tensor, again), name
    rows, same = sentences(here, one, folder), sentences(there, other, None)
    assert np.array_equal(rows, same)
    assert len(rows) > 64


def test_what_is_not_there_is_one_line_with_its_address(bucket: str) -> None:
    with pytest.raises(DataError, match=f"{bucket}/modle: it does not exist"):
        open_origin(decode({"model": f"{bucket}/modle"}), contract())


def weights(config: GptjConfig, origin: StartingModel) -> dict[str, torch.Tensor]:
    assert origin.folder is not None
    model = build_model(config, origin).to_empty(device="cpu")
    assert load_weights(model, origin.folder.weights()) == []
    return dict(model.state_dict())


def sentences(config: GptjConfig, origin: StartingModel, data: Path | None) -> Any:
    return open_data(config, contract(data), Tokeniser(origin.vocabulary)).train.ids
