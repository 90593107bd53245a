"""CONTRIBUTING's table "I want, I touch, What fails until I am done" names real places."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture import tracked

HEADER = re.compile(r"^\|\s*I want\s*\|", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
# The questions that a newcomer asks first. Rows may be added, but these must stay.
WANTED = (
    "a new instance type",
    "another cluster of a known kind",
    "a new cluster kind",
    "a new command",
    "to accept a cdk-nag finding",
)


def rows() -> list[tuple[str, str, str]]:
    text = tracked.text("CONTRIBUTING.md")
    header = HEADER.search(text)
    assert header, "CONTRIBUTING.md has no table that begins with '| I want |'"
    lines = text[header.start() :].split("\n\n", 1)[0].splitlines()[2:]
    cells = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines)
    return [(want, touch, fails) for want, touch, fails in cells]


def names_in(cell: str) -> tuple[list[str], list[str]]:
    """The paths that a cell names, and the other names: of classes, constants, settings."""
    spans = CODE.findall(cell)
    paths = [span for span in spans if "/" in span or re.search(r"\.(py|csv|md|toml|json)$", span)]
    return paths, [span for span in spans if span not in paths]


def defined_in(path: str) -> set[str]:
    return set(_definitions(tracked.syntax(path))) if path.endswith(".py") else set()


def _definitions(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


@pytest.mark.parametrize("want", WANTED)
def test_the_table_says_where_to_go_for(want: str) -> None:
    assert want in [row[0] for row in rows()]


def test_every_place_in_the_table_exists() -> None:
    places = [
        (want, path) for want, touch, fails in rows() for path in names_in(touch)[0] + names_in(fails)[0]
    ]
    assert len(places) >= len(WANTED)
    assert not [
        f"{want}: {path}" for want, path in places if not (tracked.ROOT / path.split("<")[0]).exists()
    ]


def test_every_name_in_the_table_is_defined_in_a_file_beside_it() -> None:
    for want, touch, _ in rows():
        paths, names = names_in(touch)
        defined = set().union(*(defined_in(path) for path in paths))
        assert set(names) <= defined, f"{want}: {sorted(set(names) - defined)} is in none of {paths}"


def test_every_row_says_what_fails_until_it_is_done() -> None:
    assert not [want for want, touch, fails in rows() if not touch or not fails]
