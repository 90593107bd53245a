"""One public class name means one thing in the whole tree, and a docstring stands without its body."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.architecture import tracked

ROOMS = ("containers/", "infra/", "jobs/", "yard/")
# Layout: of a model over ranks, as an estimate weighs it and as ranks carry it out.
# Task: GLUE's word for one of its nine, and what a recipe trains.
DELIBERATE = {"Layout", "Task"}
# A fragment that only the body below completes begins with one of these.
FRAGMENT = re.compile(r"(?:As|None|Of|What|Where|Whether)\b")

Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def modules(room: str) -> list[str]:
    return [path for path in tracked.paths(".py") if path.startswith(room)]


def homes() -> dict[str, list[str]]:
    """Find the modules that define each public class."""
    found = defaultdict(list)
    for room in ROOMS:
        for path in modules(room):
            for node in tracked.syntax(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(path)
    return found


def fragments(room: str) -> Iterator[str]:
    for path in modules(room):
        for node in tracked.nodes(path):
            if isinstance(node, Documented) and FRAGMENT.match(said := ast.get_docstring(node) or ""):
                yield f"{path}:{node.lineno} {said.splitlines()[0]}"


def test_a_public_class_name_means_one_thing() -> None:
    twice = {name: paths for name, paths in homes().items() if len(paths) > 1}
    assert not {name: paths for name, paths in twice.items() if name not in DELIBERATE}, (
        "two classes of one name: give each the truer, longer name"
    )


def test_every_excused_name_occurs_twice() -> None:
    found = homes()
    assert not [name for name in DELIBERATE if len(found.get(name, [])) < 2]


def test_a_docstring_does_not_open_with_a_fragment() -> None:
    assert not [line for room in (*ROOMS, "scripts/", "slipway/", "tests/") for line in fragments(room)]


def test_a_fragment_is_told_from_a_sentence() -> None:
    assert FRAGMENT.match("Of the next backward the sums are whole.")
    assert FRAGMENT.match("None of a job that is not there.")
    assert not FRAGMENT.match("Ask the yard what it holds.")
    assert not FRAGMENT.match("Offer the hosts that are free.")
