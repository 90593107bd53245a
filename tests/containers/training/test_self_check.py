"""A layout is compared with one rank before it trains: a right one passes, and an error is named."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("torch")

from slipway.containers.models.decoder import DecoderShape
from slipway.containers.models.shapes import BERT_SIZES, EncoderShape
from slipway.containers.recipes.gpt_neox.model import SIZES
from slipway.containers.training.layout import Layout
from slipway.containers.training.trial import small_shape
from tests.containers.forks import run_module
from tests.containers.training.self_checks import CASES, RIGHT, WRONG

MOST_SECONDS = 10  # on a busy machine; each takes half a second on an idle one


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return what each rank reported for each case."""
    folder = tmp_path_factory.mktemp("checks")
    ran = run_module("tests.containers.training.self_checks", folder)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, list[str]] = {}
    for name, case in CASES.items():
        told = [json.loads((folder / f"{name}.{rank}.json").read_text()) for rank in range(case.layout.world)]
        assert max(each["seconds"] for each in told) < MOST_SECONDS
        found[name] = [each["said"] for each in told]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_a_layout_that_is_right_says_nothing(said: dict[str, list[str]], name: str) -> None:
    assert set(said[name]) == {""}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_a_fault_in_what_carries_numbers_is_named_by_all_ranks_alike(
    said: dict[str, list[str]], name: str
) -> None:
    (line,) = set(said[name])
    layout = re.escape(str(WRONG[name].layout))
    assert re.match(rf"the self-check of {layout} in float32 failed: a loss of \S+ and a gradient norm", line)
    assert "and one rank alone a loss of" in line
    assert line.endswith("self_check=no trains all the same")


@pytest.mark.parametrize("degrees", [{"tensor": 8, "pipeline": 4}, {"tensor": 3}, {"sharded": 64}])
def test_a_small_shape_is_cut_wherever_the_model_is(degrees: dict[str, int]) -> None:
    layout, decoder, encoder = Layout(**degrees), SIZES["neox-20b"], BERT_SIZES["1.5b"]
    small = small_shape(decoder, layout, 2)
    assert (small.gelu, small.family) == (decoder.gelu, decoder.family)
    pairs: list[tuple[DecoderShape | EncoderShape, DecoderShape | EncoderShape]] = [
        (decoder, small),
        (encoder, small_shape(encoder, layout, 2)),
    ]
    for whole, cut in pairs:
        layout.check(cut, stages_per_rank=2)
        assert (cut.vocabulary % layout.tensor == 0) == (whole.vocabulary % layout.tensor == 0)
        assert cut.hidden <= 128
