"""The pages of two lists that the code and its tests cite by number: BI-001 and F01.

A row is a line of a file in docs/lists.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

LISTS = Path(__file__).resolve().parent.parent / "docs" / "lists"

_BAD_INPUTS = """\
# Bad inputs

What people may get wrong, and how Slipway is to react. Code and tests cite a row by its number, such as
BI-052. The list is a goal: a row is met where a test holds it. A test file stands without a test's name
where it runs the row's inputs as parameters. Numbers that are missing have no row.

| Number | Where | Input | Expected reaction | Held by |
|---|---|---|---|---|
"""
_FAULTS = """\
# Faults

What may fail while clusters run, and how Slipway is to behave. Code and tests cite a row by its number,
such as F15. The list is a goal: a row is met where a test holds it. A test file stands without a test's
name where it cites the number. `slipway yard up --chaos SEED` switches on in a yard what AWS may do by
itself, and `slipway yard faults` lists it. None of this was tried on AWS.

| Number | Fault | Expected behaviour | Held by |
|---|---|---|---|
"""


def bad_inputs_page() -> str:
    return _BAD_INPUTS + "".join(_lines("bad-inputs.csv", ("id", "where", "input", "expected", "held_by")))


def faults_page() -> str:
    return _FAULTS + "".join(_lines("faults.csv", ("id", "fault", "expected", "held_by")))


def _lines(name: str, columns: tuple[str, ...]) -> Iterator[str]:
    with (LISTS / name).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield f"| {' | '.join(_cell(row, column) for column in columns)} |\n"


def _cell(row: Mapping[str, str], column: str) -> str:
    """Escape text for a table: no cell ends early, and no tag or emphasis begins."""
    text = row[column].replace("\\", "\\\\").replace("|", "\\|")
    for mark in "<*_`[":
        text = text.replace(mark, f"\\{mark}")
    return text
