"""Each folder below tests/ mirrors the folder of the code that it tests."""

from __future__ import annotations

from pathlib import PurePosixPath

from tests.architecture import tracked

# Folders of tests about the whole repository.
WHOLE_HOUSE = {"any_input", "architecture", "end_to_end"}


def folders() -> set[str]:
    tests = [PurePosixPath(path) for path in tracked.paths(".py") if path.startswith("tests/")]
    found = {str(path.parent.relative_to("tests")) for path in tests if path.name.startswith("test_")}
    return found - {"."}


def test_every_folder_of_tests_is_a_folder_of_the_tree() -> None:
    lost = [name for name in folders() - WHOLE_HOUSE if not (tracked.ROOT / name).is_dir()]
    assert not lost, "what these test has moved: move them along"


def test_every_room_with_code_has_tests() -> None:
    elsewhere = {"tests", "slipway", "docs"}  # examples are run end to end
    rooms = {path.split("/")[0] for path in tracked.paths(".py") if "/" in path} - elsewhere
    assert rooms <= {name.split("/")[0] for name in folders()}
