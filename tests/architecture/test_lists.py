"""A code that points to a list, such as BI-052 or F15, points to a row that a reader finds in docs/."""

from __future__ import annotations

import re

import pytest

from tests.architecture import tracked

CITED_IN = (".c", ".h", ".md", ".py", ".sh", ".toml", ".yaml")
PAGES = {
    "docs/bad-inputs.md": re.compile(r"\bBI-\d{3}\b"),
    "docs/faults.md": re.compile(r"(?<![\w#\"'-])F\d\d\b"),
}


@pytest.mark.parametrize("page", PAGES)
def test_every_code_that_is_cited_has_its_row(page: str) -> None:
    rows = set(re.findall(r"^\| (\S+) \|", tracked.text(page), re.MULTILINE))
    cited = {
        (code, path)
        for path in tracked.paths(*CITED_IN)
        if path != page
        for code in PAGES[page].findall(tracked.text(path))
    }
    assert len(cited) > 5
    assert not {(code, path) for code, path in cited if code not in rows}
