"""`scripts/test ROOM` runs the tests of a room and of all that imports it, and no others."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scripts.room_tests import files_of, main
from tests.scripts.checkouts import make_checkout

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "test"
CHOSEN = (
    "-n 2 --dist loadfile -m not alone and not long and not apart -k bounds "
    "tests/jobs/test_one.py tests/jobs/test_two.py"
)


def test_the_tests_of_a_room_are_its_own_and_those_of_what_imports_it() -> None:
    found = files_of("jobs/plan/search")
    assert set(found) >= {
        "tests/jobs/plan/search/test_bounds.py",  # its own
        "tests/jobs/plan/inputs/test_sweeps.py",  # by a module between them
        "tests/scripts/test_plan_benchmarks.py",  # by a script
    }
    assert not [path for path in found if path.startswith(("tests/containers", "tests/infra", "tests/yard"))]


@pytest.mark.parametrize("room", ["jobs/plan/search/", "jobs/plan/search"])
def test_a_room_may_end_with_a_slash(room: str) -> None:
    assert files_of(room) == files_of("jobs/plan/search") != []


def test_a_module_has_tests_as_a_room_has() -> None:
    assert "tests/jobs/words/test_recipes.py" in files_of("jobs/words/recipes.py")


def test_a_room_of_shell_has_the_tests_of_its_folder() -> None:
    assert "tests/infra/boot/test_boot_scripts.py" in files_of("infra/boot")


@pytest.mark.parametrize(
    "room", ["jobs/planer", "tests/jobs", "docs", "jobs/../docs", "infra/components/efa.yaml"]
)
def test_what_is_no_room_is_refused_in_one_line(room: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([room]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"error: no test is of '{room}'; a room is a folder or module of infra, jobs,")
    assert said.err.count("\n") == 1


def test_pytest_gets_the_files_of_the_room_and_all_other_arguments(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path)
    code, said = checkout.run("jobs/plan/search", "-k", "bounds", script="test")
    assert code == 0, said
    assert checkout.said() == ["python -m scripts.room_tests jobs/plan/search", f"pytest {CHOSEN}"]


def test_no_test_runs_where_there_is_no_such_room(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path)
    code, said = checkout.run("jobs/planer", script="test", FAILING="room_tests")
    assert code == 1, said
    assert [line for line in checkout.said() if line.startswith("pytest")] == []


def test_every_folder_of_the_quick_tests_is_there() -> None:
    (listed,) = re.findall(r"^QUICK=\((.*?)\)$", SCRIPT.read_text(), re.MULTILINE | re.DOTALL)
    braces = ["bash", "-c", f"echo {' '.join(listed.split())}"]
    expanded = subprocess.run(braces, capture_output=True, text=True, check=True).stdout.split()
    assert len(expanded) > 10
    assert [name for name in expanded if not (SCRIPT.parents[1] / name).exists()] == []
