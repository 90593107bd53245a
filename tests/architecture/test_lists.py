"""Every code such as BI-052 or F15 has a row in a list of docs/, and what the row names exists.

A row of those lists says in `held_by` which tests hold it (`file::test`, or only the file where
it runs the row's inputs as parameters), or `nothing: ` and the reason. A doubt of docs/doubts.md may also be
held by a check of preflight, a claim of scripts/acceptance or a step of a component.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Collection, Iterator
from io import StringIO

import pytest

from scripts.real_account.all_claims import NAMES
from slipway.jobs.clusters.preflight.checks import CHECKS
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


def holders(name: str = "bad-inputs") -> Iterator[tuple[str, str]]:
    """Yield the number of each row with each test that holds it, or with why none does."""
    for row in csv.DictReader(tracked.text(f"docs/lists/{name}.csv").splitlines()):
        held_by = row["held_by"]
        yield from ((row["id"], one) for one in ([held_by] if is_unheld(held_by) else held_by.split("; ")))


def functions_of(path: str) -> set[str]:
    return {node.name for node in tracked.nodes(path) if isinstance(node, ast.FunctionDef)}


def is_unheld(holder: str) -> bool:
    return holder.startswith("nothing: ")


@pytest.mark.parametrize(
    ("number", "holder"),
    [each for name in ("bad-inputs", "faults") for each in holders(name) if not is_unheld(each[1])],
)
def test_the_test_that_holds_a_bad_input_or_a_fault_is_there(number: str, holder: str) -> None:
    path, _, name = holder.partition("::")
    assert path in tracked.paths(".py")
    if name:
        assert name in functions_of(path)
    else:
        assert number in tracked.text(path)


def test_a_bad_input_that_a_test_names_is_held_by_it() -> None:
    listed = {(number, holder.partition("::")[0]) for number, holder in holders()}
    named = {
        (number, path)
        for path in tracked.paths(".py")
        if path.startswith("tests/") and not path.startswith("tests/architecture/")
        for number in PAGES["docs/bad-inputs.md"].findall(tracked.text(path))
    }
    assert not named - listed, "name the test in the held_by column of docs/lists/bad-inputs.csv"


@pytest.mark.parametrize("name", ["bad-inputs", "faults"])
def test_a_row_that_nothing_holds_says_why(name: str) -> None:
    assert not [number for number, holder in holders(name) if not holder.removeprefix("nothing: ").strip()]


def test_each_protection_that_the_mutants_remove_stands_once_in_its_file() -> None:
    rows = csv.DictReader(StringIO(tracked.text("docs/lists/protections.csv"), newline=""))
    counts = {row["id"]: tracked.text(row["file"]).count(row["protection"]) for row in rows}
    assert len(counts) > 40
    assert {number: count for number, count in counts.items() if count != 1} == {}


# Who finds out first that a row of docs/doubts.md is wrong.
FINDERS = {
    "acceptance",
    "bake",
    "deployment",
    "explain",
    "launcher",
    "preflight",
    "prolog",
    "smoke",
    "submission",
    "watchdog",
    "you",
}
_OTHER_HOLDERS: dict[str, Collection[str]] = {"preflight": CHECKS, "acceptance": NAMES}
STEP = re.compile(r"^      - name: (\w+)$", re.MULTILINE)


def doubts() -> list[dict[str, str]]:
    return list(csv.DictReader(tracked.text("docs/lists/doubts.csv").splitlines()))


def test_doubts_are_many_and_numbered_in_their_order() -> None:
    numbers = [row["id"] for row in doubts()]
    assert len(numbers) > 40
    assert numbers == [f"D{number:02}" for number in range(1, len(numbers) + 1)]


@pytest.mark.parametrize("row", doubts(), ids=lambda row: row["id"])
def test_a_doubt_says_who_finds_out_and_what_bounds_its_cost(row: dict[str, str]) -> None:
    assert all((text or "").strip() for text in row.values())
    assert None not in row, "a cell more than there are columns"
    assert row["first"] in FINDERS
    assert "as above" not in row["bound"], "a row may move"
    if row["bound"].startswith("nothing"):
        assert row["cost"].startswith("nothing"), "what costs money has a bound, or somebody who is told"


@pytest.mark.parametrize(("number", "holder"), list(holders("doubts")))
def test_what_holds_a_doubt_is_there(number: str, holder: str) -> None:
    path, _, name = holder.partition("::")
    if is_unheld(holder):
        assert holder.removeprefix("nothing: ").strip()
    elif path in _OTHER_HOLDERS:
        assert name in _OTHER_HOLDERS[path], f"{number}: {path} has no {name!r}"
    elif path.startswith("infra/components/"):
        assert name in STEP.findall(tracked.text(path)), f"{number}: {path} has no step {name!r}"
    else:
        assert name in functions_of(path), f"{number}: {path} has no test {name!r}"


def billing_states() -> list[tuple[str, ...]]:
    """Return the rows of the table of what bills, cell by cell."""
    rows = re.findall(r"^\| (.*) \|$", tracked.text("docs/billing-states.md"), re.MULTILINE)
    return [tuple(cell.strip() for cell in row.split(" | ")) for row in rows[1:] if not row.startswith("---")]


@pytest.mark.parametrize("row", billing_states(), ids=lambda row: row[0][:60])
def test_every_state_that_bills_says_what_ends_it_and_who_is_told_and_a_test_holds_it(
    row: tuple[str, ...],
) -> None:
    assert len(row) == 5
    assert all(row)
    path, _, name = row[-1].strip("`").partition("::")
    assert path in tracked.paths(".py")
    assert name in functions_of(path), f"{path} has no test {name!r}"


def test_the_states_that_bill_are_many() -> None:
    assert len(billing_states()) > 15
