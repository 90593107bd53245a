"""docs/python.md does what it says: its examples run, one after the other, against the yard."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.deployed import deploy_target, job_names
from tests.yard.conftest import RunningYard

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_page_run_and_the_first_is_three_lines(
    yard_shell: RunningYard,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    target = deploy_target(yard_shell)
    submitting, deciding, looking = EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(submitting.splitlines()) == 3
    for example in (submitting, submitting, deciding, looking):
        exec(example, {})  # noqa: S102 - what a reader would paste
    first, second, decided, looked = capsys.readouterr().out.splitlines()
    assert first == second
    assert len(job_names(yard_shell, target)) == 1
    assert re.fullmatch(r"2 \d+\.\d+", decided)
    assert looked


def test_the_package_itself_loads_nothing() -> None:
    code = "import sys; before = set(sys.modules); import slipway; print(*set(sys.modules) - before)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) <= {"jobs"}
