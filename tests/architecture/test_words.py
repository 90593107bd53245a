"""One public class name means one thing in the whole tree, and a docstring stands without its body."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.architecture import tracked

ROOMS = ("containers/", "infra/", "jobs/", "yard/")
# Recipes share these names on purpose: who has read one recipe finds the same thing in the next.
DELIBERATE = {"Embeddings", "Loop"}
# Names that meant several things when this test came; this list only gets shorter.
NOT_YET_RENAMED: set[str] = {
    "Answer",
    "Attempt",
    "Block",
    "BuildFailed",
    "Call",
    "Cluster",
    "Ending",
    "Engine",
    "Entry",
    "Event",
    "Facts",
    "Fetch",
    "Guard",
    "Job",
    "Journal",
    "Kind",
    "Layout",
    "Link",
    "Machine",
    "MachineImage",
    "Manifest",
    "Member",
    "Mpi",
    "Network",
    "Origin",
    "Outcome",
    "Pair",
    "Parts",
    "Piece",
    "Place",
    "Plan",
    "Platform",
    "Progress",
    "Quota",
    "Record",
    "Run",
    "Scope",
    "Settings",
    "Stack",
    "Step",
    "StepFailed",
    "Stopped",
    "Stretch",
    "Surroundings",
    "Table",
    "Template",
    "Text",
    "Verdict",
    "Work",
}
# A fragment that only the body below completes begins with one of these.
FRAGMENT = re.compile(r"(?:As|None|Of|What|Where|Whether)\b")
# How many docstrings of a room began so when this test came; these figures only get smaller.
FRAGMENTS_LEFT = {"containers/": 88, "infra/": 28, "jobs/": 112, "yard/": 126}

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
        for node in ast.walk(tracked.syntax(path)):
            if isinstance(node, Documented) and FRAGMENT.match(said := ast.get_docstring(node) or ""):
                yield f"{path}:{node.lineno} {said.splitlines()[0]}"


def test_a_public_class_name_means_one_thing() -> None:
    excused = DELIBERATE | NOT_YET_RENAMED
    assert not {name: paths for name, paths in homes().items() if len(paths) > 1 and name not in excused}, (
        "two classes of one name: give each the truer, longer name"
    )


def test_every_excused_name_still_occurs_twice() -> None:
    found = homes()
    assert not [name for name in DELIBERATE | NOT_YET_RENAMED if len(found.get(name, [])) < 2]


def test_a_docstring_does_not_open_with_a_fragment() -> None:
    for room in ROOMS:
        found = list(fragments(room))
        allowed = FRAGMENTS_LEFT[room]
        assert len(found) <= allowed, f"{room} has {len(found)}, allowed are {allowed}:\n" + "\n".join(found)
        assert len(found) == allowed, f"{room} has only {len(found)} left: say so in FRAGMENTS_LEFT"


def test_a_fragment_is_told_from_a_sentence() -> None:
    assert FRAGMENT.match("Of the next backward the sums are whole.")
    assert FRAGMENT.match("None of a job that is not there.")
    assert not FRAGMENT.match("Ask the yard what it holds.")
    assert not FRAGMENT.match("Offer the hosts that are free.")
