"""A yard ends with the process for which it was started, however that process ended."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.jobs.words.errors import SlipwayError
from slipway.yard import process
from slipway.yard.state import OWNER_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
A_PYTEST = """
from slipway.yard import process

def test_that_hangs(tmp_path):
    state = process.up(folder=tmp_path / "home").state
    print(state.pid, tmp_path / "home", flush=True)
    input()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    process.down(folder=tmp_path / "home")


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with started:
        yield started
        started.kill()


def wait_for_end(pid: int) -> None:
    process._children[pid].wait(timeout=30)


def test_a_yard_ends_when_its_owner_is_killed_and_leaves_nothing(
    folder: Path, owner: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OWNER_VARIABLE, str(owner.pid))
    found = process.up(folder=folder).state
    owner.kill()
    wait_for_end(found.pid)
    assert not folder.exists()


def test_a_yard_whose_owner_has_gone_before_it_came_up_ends_too(
    folder: Path, owner: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.kill()
    owner.wait()
    monkeypatch.setenv(OWNER_VARIABLE, str(owner.pid))
    with pytest.raises(SlipwayError, match="did not start"):
        process.up(folder=folder)
    assert not folder.exists()


def test_an_owner_that_is_no_process_number_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWNER_VARIABLE, "me")
    with pytest.raises(SlipwayError, match="SLIPWAY_YARD_UNTIL_EXIT_OF is 'me', which is not a process id"):
        process.up(folder=folder)


def test_the_yards_of_tests_end_when_pytest_is_killed(tmp_path: Path) -> None:
    """Use the conftest.py of these tests, and none of their other files."""
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tests / "test_it.py").write_text(A_PYTEST)
    command = [sys.executable, "-m", "pytest", "-qsp", "no:cacheprovider", str(tests)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as pytest_run:
        assert pytest_run.stdout is not None
        pid, home = pytest_run.stdout.readline().split()
        descriptor = os.pidfd_open(int(pid))
        pytest_run.send_signal(signal.SIGKILL)
    assert select.select([descriptor], [], [], 30)[0]
    os.close(descriptor)
    assert not Path(home).exists()
