"""The models have the published numbers of parameters, and a cut that a model does not allow is refused."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from slipway.containers.models.configs import config_of
from slipway.containers.recipes.gpt_neox.config import decode
from slipway.containers.recipes.gpt_neox.model import SIZES, build_model, model_shape
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.runtime.errors import Refusal
from slipway.jobs.estimate.work.models import MODELS

NAMES = {"neox-20b": "gpt-neox-20b", "pythia-6.9b": "pythia-6.9b"}


def contract(data: Path | None = None) -> LaunchContract:
    return replace(read_contract({}), data=None if data is None else str(data))


@pytest.mark.parametrize("size", NAMES)
def test_a_published_size_has_its_number_of_parameters_without_any_memory(size: str) -> None:
    model = build_model(decode({"size": size}), contract(), print)
    assert all(parameter.is_meta for parameter in model.parameters())
    assert sum(parameter.numel() for parameter in model.parameters()) == MODELS[NAMES[size]].parameters


@pytest.mark.parametrize(("size", "layers"), [("neox-20b", 44), ("pythia-6.9b", 32)])
def test_weights_begin_as_in_the_article_s_scripts(size: str, layers: int) -> None:
    """init_method_std=0.021, and use_scaled_init_method: σ / √(2 · layers) for what adds to the residual."""
    model = build_model(decode({"size": size}), contract(), print)
    spreads = {
        name: float(model.initial_weights(name, torch.Size((256, 512)), seed=1).std())
        for name, _ in model.named_parameters()
        if name.startswith("layers.7.") and name.endswith("weight") and "norm" not in name
    }
    scaled = {"layers.7.attention.output.weight", "layers.7.mlp.down.weight"}
    assert len(spreads) == 4
    for name, spread in spreads.items():
        wanted = 0.021 / math.sqrt(2 * layers) if name in scaled else 0.021
        assert spread == pytest.approx(wanted, rel=0.02), name


def test_how_weights_were_drawn_is_no_part_of_what_a_resumed_training_must_share() -> None:
    plain, scaled = (replace(SIZES["tiny"], scales_residuals=scales) for scales in (False, True))
    assert plain.identity == scaled.identity


def test_any_config_of_a_gpt_neox_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    written = {**config_of(SIZES["tiny"], "GPTNeoXForCausalLM"), "num_hidden_layers": 3}
    (tmp_path / "mine" / "config.json").write_text(json.dumps(written))
    config = decode({"config": "mine", "rotary": "whole"})
    shape = model_shape(config, contract(tmp_path))
    assert (shape.layers, shape.hidden, shape.rotates_whole_heads) == (3, 64, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"size": "neox-20b", "vocabulary": "50257"},
            "tensor=8 does not divide the vocabulary of 50257; set vocabulary=50264, which pads it",
        ),
        ({"length": "257"}, "length=257 is more than the 256 positions of size=tiny; set length"),
    ],
)
def test_a_model_that_cannot_be_trained_so_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(Refusal, match=re.escape(said)):
        model_shape(decode(given), contract())
