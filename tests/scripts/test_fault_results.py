"""The page of faults shows only measurements of tests that have not changed since."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import fault_results, faults_page, mutants
from scripts.fault_results import digest_of, fresh, merge, read_list
from scripts.mutants import RED, Protection, Tried, attempt, seen_red

TEST = "tests/test_them.py::test_a_fault"
TESTS = """
import pytest
from tests.fault_clock import FaultClock
from product import guard

@pytest.mark.parametrize("number", [1, 2])
def test_a_fault(number, request):
    clock = FaultClock(request.node.user_properties)
    clock.strikes()
    clock.is_seen()
    assert guard.holds(number) {more}
"""
LIST = f"""id,fault,expected,injected,held_by
F01,a fault,nothing lost,a stroke,{TEST}
F02,another,nothing lost,nothing yet,nothing: it is not yet here
"""
PROTECTION = f"""id,test,file,protection,without
F01,{TEST},product/guard.py,number > 0,number > 5
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a project with one fault, its protection and its test."""
    own = Path(fault_results.__file__).resolve().parents[1]
    for name in ("docs/lists", "product", "tests"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "docs" / "lists" / "faults.csv").write_text(LIST)
    (tmp_path / "docs" / "lists" / "protections.csv").write_text(PROTECTION)
    (tmp_path / "product" / "guard.py").write_text("def holds(number):\n    return number > 0\n")
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "tests" / "fault_clock.py").symlink_to(own / "tests" / "fault_clock.py")
    (tmp_path / "tests" / "test_them.py").write_text(TESTS.format(more=""))
    for module in (fault_results, mutants):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(fault_results, "LISTS", tmp_path / "docs" / "lists")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fault_results._functions.cache_clear()
    return tmp_path


def run_tests(folder: Path) -> Path:
    """Run the tests as scripts/tests_of does, and return pytest's report."""
    results = folder / "results.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={results}", "tests"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert 'tests="2"' in results.read_text(), ran.stdout
    return results


def test_what_a_test_tells_is_kept_and_shown(checkout: Path) -> None:
    assert merge([run_tests(checkout)]) == 1
    (row,) = read_list("faults-measured.csv")
    assert (row["test"], row["outcome"], row["platform"]) == (TEST, "passed", "any")
    assert 0 <= float(row["detected"]) < 5
    assert row["recovered"] == ""
    shown = faults_page.faults_page()
    assert "| F01 | a stroke | any | 1 of 1 passed | " in shown
    assert "| F02 | nothing yet | not measured | not measured |" in shown


def test_a_test_that_failed_is_shown_as_one(checkout: Path) -> None:
    (checkout / "tests" / "test_them.py").write_text(TESTS.format(more="and number == 1"))
    merge([run_tests(checkout)])
    assert "| F01 | a stroke | any | 0 of 1 passed | " in faults_page.faults_page()


def test_what_another_test_of_this_name_measured_is_not_shown(checkout: Path) -> None:
    merge([run_tests(checkout)])
    (checkout / "tests" / "test_them.py").write_text(TESTS.format(more="or True"))
    fault_results._functions.cache_clear()
    assert fresh() == {}
    assert "| F01 | a stroke | not measured | not measured |" in faults_page.faults_page()


def test_a_test_that_fails_without_its_protection_is_red(checkout: Path) -> None:
    tried = try_protections(checkout)
    assert (tried.outcome, tried.says) == (RED, "assert False")
    assert "> 0" in (checkout / "product" / "guard.py").read_text(), "the file is as it was"
    assert list(seen_red()) == ["F01"]
    assert "product/guard.py: number > 0" in faults_page.faults_page()


def test_a_protection_that_is_gone_is_said(checkout: Path) -> None:
    (checkout / "product" / "guard.py").write_text("def holds(number):\n    return True\n")
    assert try_protections(checkout).outcome == "no such protection"


def try_protections(folder: Path) -> Tried:
    (one,) = mutants.protections()
    assert isinstance(one, Protection)
    tried = attempt(one, folder)
    mutants._keep(tried)
    return tried


def test_no_digest_is_of_a_test_that_is_not_there(checkout: Path) -> None:
    assert digest_of("tests/test_them.py::test_nothing") == digest_of("tests/none.py::test_a_fault") == ""
