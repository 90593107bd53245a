"""A test run ends with what was skipped and why, and pytest's own line stays the last one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import pytest

@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.skipif(True, reason="only root may do it")
def test_of_root(number): pass

def test_of_kernel(): pytest.skip("no namespaces")

def test_that_passes(): pass
"""


def run(folder: Path, tests: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "test_them.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", *options, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_line_above_the_last_one_counts_skips_by_reason(tmp_path: Path) -> None:
    done = run(tmp_path, TESTS)
    said = done.stdout.splitlines()
    assert done.returncode == 0
    assert said[-2] == "skips by reason: 2 × only root may do it; 1 × no namespaces"
    assert said[-1].startswith("1 passed, 3 skipped in ")


def test_a_package_that_is_missing_is_no_reason_to_skip(tmp_path: Path) -> None:
    done = run(tmp_path, f"{TESTS}\ndef test_of_package(): pytest.importorskip('no_such_package')\n")
    said = done.stdout.splitlines()
    assert done.returncode == 1
    assert said[-3] == "error: tests lack a package; install all of them: scripts/test --collect-only"
    assert "could not import 'no_such_package'" in said[-2]


def test_what_a_failed_test_left_open_fails_no_other_test(tmp_path: Path) -> None:
    """A traceback keeps its frames, whose objects once ended during a later test, with a warning."""
    tests = """
import gc, subprocess

def test_that_fails():
    waiting = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    waiting.communicate(timeout=0)

def test_of_something_else(): gc.collect()
"""
    done = run(tmp_path, tests, "-W", "error")
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "TimeoutExpired" in done.stdout


def test_what_a_test_that_passed_left_open_still_fails(tmp_path: Path) -> None:
    tests = """
import gc

def test_that_leaves_a_file_open():
    cycle = [open("/dev/null")]
    cycle.append(cycle)

def test_that_meets_it(): gc.collect()
"""
    assert "1 failed, 1 passed" in run(tmp_path, tests, "-W", "error").stdout
