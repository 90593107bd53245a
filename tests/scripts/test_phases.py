"""The scripts run the right phases, and an interrupted one leaves nothing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scripts.room_tests import files_of, main
from tests.scripts.checkouts import Running, make_checkout
from tests.waiting import until


@pytest.mark.parametrize(
    ("script", "command", "way", "code"),
    [
        ("bench", "scripts.benchmarks", "Ctrl-C", 130),
        ("check", "mypy", "SIGTERM", 143),
        ("check", "ruff", "closed terminal", 129),
        ("lock", "uv pip", "SIGTERM", 143),
        ("test", "ruff", "Ctrl-C", 130),
        ("test", "pytest --cache-clear -n 4", "SIGTERM", 143),
    ],
)
def test_an_interrupted_script_leaves_no_process(
    tmp_path: Path, script: str, command: str, way: str, code: int
) -> None:
    checkout = make_checkout(tmp_path)
    (tmp_path / "scripts" / "write_docs").symlink_to("/bin/true")
    running = Running(checkout.command(script), checkout.environment(HANGING=command))
    until(lambda: any("sleep 1000" in line for line in checkout.processes()))
    assert running.interrupt(way) == code
    checkout.assert_nothing_is_left()


# The phases of scripts/test that name the files of a mark leave none of its tests out.


def test_a_mark_that_tests_import_is_theirs(tmp_path: Path) -> None:
    """A phase of scripts/test names its files, because pytest would import all others, too."""
    checkout = make_checkout(tmp_path)
    replace(tmp_path, fresh=0, write_docs=0, set_up_apart=0)
    (tmp_path / "tests" / "yard").mkdir(parents=True)
    for name, text in {
        "every.py": "MARKED = [pytest.param(1, marks=pytest.mark.long)]",
        "test_of_every.py": "from tests.yard.every import MARKED",
        "test_that_is_marked.py": "pytestmark = pytest.mark.long",
        "test_of_something_else.py": "from tests.yard import nothing",
    }.items():
        (tmp_path / "tests" / "yard" / name).write_text(f"{text}\n")
    code, said = checkout.run("--all", script="test")
    assert code == 0, said
    (longest,) = [line for line in checkout.said() if " -m long " in line]
    named = longest.split(" -m long ")[1].split(" --")[0]
    assert named == "tests/yard/test_that_is_marked.py tests/yard/test_of_every.py"


# `scripts/test --all` runs README's commands as on a new machine, next to the static checks.
NO_SUCH_VIEW = 77


@pytest.mark.parametrize(
    ("views", "code", "words"),
    [
        (0, 0, ""),
        (1, 1, "test: failed: this machine as if it were new"),
        (NO_SUCH_VIEW, 0, "test: NOT RUN: the demo and the tests of hosts as if this machine were new"),
    ],
)
def test_views_that_fail_fail_the_whole_once_all_tests_have_run(
    tmp_path: Path, views: int, code: int, words: str
) -> None:
    checkout = make_checkout(tmp_path)
    replace(tmp_path, fresh=views, write_docs=0, set_up_apart=0)
    ended, said = checkout.run("--all", script="test")
    assert ended == code, said
    assert words in said
    assert any("not long and not apart" in line for line in checkout.said())


def test_a_phase_of_all_that_fails_is_named_at_the_end_and_the_others_run(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path)
    replace(tmp_path, fresh=0, check=1, set_up_apart=3, write_docs=0)
    ended, said = checkout.run("--all", script="test")
    assert ended == 1
    assert said.splitlines()[-2:] == [
        "test: failed: static checks, with exit code 1",
        "test: failed: set-up of environments of their own, with exit code 3",
    ]
    assert any("-m apart" in line for line in checkout.said())


def replace(checkout: Path, **codes: int) -> None:
    for name, code in codes.items():
        script = checkout / "scripts" / name
        script.unlink(missing_ok=True)
        script.write_text(f"#!/bin/sh\nexit {code}\n")
        script.chmod(0o755)


# `scripts/test FOLDER` runs the tests of a folder and of all that imports it, and no others.
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "test"
CHOSEN = (
    "-n 2 --dist loadfile -m not long and not apart -k bounds tests/jobs/test_one.py tests/jobs/test_two.py"
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
