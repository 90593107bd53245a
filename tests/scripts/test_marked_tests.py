"""The phases of scripts/test that name the files of a mark leave none of its tests out."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.checkouts import make_checkout


def test_a_mark_that_tests_import_is_theirs(tmp_path: Path) -> None:
    """A phase of scripts/test names its files, for pytest would import all others, too."""
    checkout = make_checkout(tmp_path)
    (tmp_path / "scripts" / "write_docs").symlink_to("/bin/true")
    (tmp_path / "tests" / "yard").mkdir(parents=True)
    for name, text in {
        "every.py": "MARKED = [pytest.param(1, marks=pytest.mark.alone)]",
        "test_of_every.py": "from tests.yard.every import MARKED",
        "test_that_is_marked.py": "pytestmark = pytest.mark.alone",
        "test_of_something_else.py": "from tests.yard import nothing",
    }.items():
        (tmp_path / "tests" / "yard" / name).write_text(f"{text}\n")
    code, said = checkout.run(script="test")
    assert code == 0, said
    (alone,) = [line for line in checkout.said() if "-m alone and not long" in line]
    named = alone.split(" -m alone and not long ")[1].split(" --durations")[0]
    assert named == "tests/yard/test_that_is_marked.py tests/yard/test_of_every.py"
