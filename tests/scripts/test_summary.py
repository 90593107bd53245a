"""The end of a test run says what was skipped and why, and pytest's own line stays the last one."""

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


def test_the_line_above_the_last_one_counts_skips_by_reason(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_them.py").write_text(TESTS)
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert said[-2] == "skips by reason: 2 × only root may do it; 1 × no namespaces"
    assert said[-1].startswith("1 passed, 3 skipped in ")
