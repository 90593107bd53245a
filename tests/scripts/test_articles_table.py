"""Each road's page shows the article's settings next to its recipe's defaults."""

from __future__ import annotations

import csv

import pytest

from scripts.articles_table import BEGIN, END, ROWS, here, pages, with_table

ROADS = {f"docs/roads/{road}.md" for road in ("c6i", "dl1", "sagemaker", "trn1")}


def rows() -> list[dict[str, str]]:
    with ROWS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_road_of_an_article_has_its_table() -> None:
    assert set(pages()) == ROADS


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['page']} {row['what']}")
def test_a_default_that_is_not_the_articles_says_why(row: dict[str, str]) -> None:
    assert bool(row["why"]) == (here(row) != row["article"])


def test_a_default_is_read_from_the_recipe() -> None:
    row = {"recipe": "glue_finetune epochs=4", "here": "{epochs} of {max_length}"}
    assert here(row) == "4 of 128"


def test_a_table_keeps_the_words_around_it() -> None:
    page = with_table("docs/roads/c6i.md", f"before\n{BEGIN}\nstale\n{END}\nafter\n")
    assert page.startswith(f"before\n{BEGIN}\n\n| |")
    assert page.endswith(f"|\n\n{END}\nafter\n")
    assert "stale" not in page
