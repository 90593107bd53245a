"""The table of layouts is true: a layout that an image accepts was run on its PyTorch; others are refused."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("torch")

from scripts.trust_pages import MEASURED, RIGHT, images_by_torch, layouts_page
from slipway.containers.training.config import OLDEST, is_proved
from tests.containers.forks import run_module
from tests.containers.training import layout_table
from tests.containers.training.layout_table import LAYOUTS, RECIPES, Row, outcome, read, release
from tests.containers.training.self_checks import CASES

CELLS = set(product(RECIPES, LAYOUTS))


def results(rows: list[Row]) -> Mapping[tuple[str, str], str]:
    return {(row["recipe"], row["layout"]): row["result"] for row in rows if row["torch"] == release()}


def test_every_layout_was_run_on_each_pytorch_of_an_image_that_takes_it() -> None:
    taken = {torch for torch in images_by_torch() if is_proved("native", torch)}
    assert taken, "images hold a PyTorch that layouts are taken on"
    rows = read(MEASURED)
    for torch in taken:
        seen = {(row["recipe"], row["layout"]): row["result"] for row in rows if row["torch"] == torch}
        assert seen.keys() == CELLS, f"run {layout_table.__name__} on PyTorch {torch}"
        assert set(seen.values()) == {RIGHT}
    assert any(torch.startswith(f"{OLDEST['native']}.") for torch in taken), "the oldest is one of them"


def test_the_page_refuses_what_was_not_proved_with_its_reason() -> None:
    page = layouts_page()
    for torch, images in images_by_torch().items():
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {torch} | {images[0]}")]
        assert line.endswith("| run |") if is_proved("native", torch) else "| refused: " in line


@pytest.mark.slow
def test_what_is_noted_down_is_what_ranks_said() -> None:
    assert outcome(CASES["tensor ranks"]) == RIGHT
    assert "tensor=2 in float32 failed" in outcome(CASES["lossy tensor ranks"])


@pytest.mark.long
def test_every_recipe_trains_in_every_layout_as_the_table_has_it(tmp_path: Path) -> None:
    ran = run_module(layout_table.__name__, tmp_path / "layouts.csv")
    assert ran.returncode == 0, ran.stderr
    found = results(read(tmp_path / "layouts.csv"))
    assert found.keys() == CELLS
    assert found == results(read(MEASURED))
