"""Fill the templates of generated pages in scripts/pages: code replaces their marks, such as {rows}."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_TEMPLATES = Path(__file__).resolve().parent / "pages"


def filled(name: str, **told: str) -> str:
    """Return the text of a template with each mark replaced by its argument."""
    text = (_TEMPLATES / f"{name}.md").read_text(encoding="utf-8")
    for mark, words in told.items():
        assert f"{{{mark}}}" in text, f"{name}.md has no {{{mark}}}"
        text = text.replace(f"{{{mark}}}", words.removesuffix("\n"))
    return text


def table(rows: Iterable[Iterable[object]]) -> str:
    """Return the rows of a Markdown table, without its heading."""
    return "".join(f"| {' | '.join(map(str, cells))} |\n" for cells in rows)


def escaped(text: str) -> str:
    """Escape text for a table cell, so that it cannot end the cell or begin a tag or emphasis."""
    text = text.replace("\\", "\\\\").replace("|", "\\|")
    for mark in "<*_`[":
        text = text.replace(mark, f"\\{mark}")
    return text
