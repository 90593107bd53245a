"""Cells share their variables, and each stores what it prints and the value of its last line."""

from __future__ import annotations

import pytest

from scripts.notebook import Cell, run


def cell(source: str) -> Cell:
    return {"cell_type": "code", "source": source.splitlines(keepends=True)}


class Dot:
    def _repr_png_(self) -> bytes:
        return b"png"


def test_a_cell_knows_the_names_of_those_before_it_and_shows_its_last_value() -> None:
    cells = [cell("a = 1\nprint('one')"), {"cell_type": "markdown", "source": ["no code"]}, cell("a + 1")]
    run(cells)
    assert cells[0]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": ["one\n"]}]
    (result,) = cells[2]["outputs"]
    assert (result["data"], cells[2]["execution_count"]) == ({"text/plain": ["2"]}, 2)


def test_a_value_that_can_draw_itself_is_kept_as_a_picture() -> None:
    cells = [cell(f"from {__name__} import Dot\nDot()")]
    run(cells)
    assert cells[0]["outputs"][0]["data"]["image/png"] == "cG5n"


def test_a_cell_that_fails_ends_the_run() -> None:
    cells = [cell("1 / 0"), cell("print('never')")]
    with pytest.raises(ZeroDivisionError):
        run(cells)
    assert "outputs" not in cells[1]
