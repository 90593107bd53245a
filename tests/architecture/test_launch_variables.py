"""The names of launch variables are written in one place, so writers and readers of a variable agree."""

from __future__ import annotations

import ast

from slipway.containers.runtime.contract import variables
from tests.architecture import tracked

HOME = "containers/runtime/contract/variables.py"
NAMES = {value for name, value in vars(variables).items() if name.isupper()}
# A user's own training reads documented variables, and imports nothing of ours.
USERS_OWN = ("tests/", "docs/", "jobs/code/template/")
CODE = [path for path in tracked.paths(".py") if not path.startswith(USERS_OWN)]


def names_written_out(path: str) -> list[str]:
    """Return each literal of the file that is the name of a launch variable, or a name and "="."""
    literals = (node.value for node in tracked.nodes(path) if isinstance(node, ast.Constant))
    texts = (text.decode("latin-1") if isinstance(text, bytes) else str(text) for text in literals)
    return [f"{path}: {text}" for text in texts if text.rstrip("=") in NAMES]


def test_a_launch_variable_is_written_out_in_one_file_only() -> None:
    elsewhere = [found for path in CODE if path != HOME for found in names_written_out(path)]
    assert not elsewhere, f"import these names from {HOME}: {elsewhere}"


def test_the_search_finds_the_names_at_home() -> None:
    assert len(names_written_out(HOME)) == len(NAMES) > 20
