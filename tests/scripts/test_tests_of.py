"""A test that fails on a busy machine is tried once more, alone and by name; a fault fails again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "tests_of"
TESTS = """
from pathlib import Path
import pytest

def test_that_passes(): pass

@pytest.mark.parametrize("number", range({failing}))
def test_that_fails_at_first(number):
    seen = Path(f"seen-{{number}}")
    first = not seen.exists()
    seen.touch()
    assert not first

def test_that_fails(): assert not {always}
"""


def run(folder: Path, *, failing: int, always: bool = False) -> subprocess.CompletedProcess[str]:
    (folder / "test_them.py").write_text(TESTS.format(failing=failing, always=always))
    (folder / "scripts").mkdir()
    shutil.copy(SCRIPT, folder / "scripts")
    command = ["scripts/tests_of", "-q", "-n", "2", "--dist", "loadfile"]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return subprocess.run(
        command, cwd=folder, env={"PATH": path}, capture_output=True, text=True, check=False
    )


def test_a_test_that_passes_alone_is_named_and_fails_nobody(tmp_path: Path) -> None:
    done = run(tmp_path, failing=1)
    assert done.returncode == 0, done.stdout
    assert "tried again alone: test_them.py::test_that_fails_at_first[0]\n" in done.stderr
    assert done.stdout.splitlines()[-1].startswith("1 passed")


def test_a_test_that_fails_again_fails_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, failing=1, always=True)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 passed")


def test_many_failures_are_not_tried_again(tmp_path: Path) -> None:
    done = run(tmp_path, failing=13)
    assert done.returncode == 1
    assert "13 tests failed, too many" in done.stderr


def test_a_run_without_failures_runs_once(tmp_path: Path) -> None:
    done = run(tmp_path, failing=0)
    assert (done.returncode, done.stderr) == (0, "")
