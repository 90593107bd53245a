"""`slipway report tensorboard` serves a job's own files where they are seen, else charts of its log."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.cli import curves
from slipway.jobs.submit import find, logs
from slipway.jobs.submit.logs import LogLine
from slipway.jobs.words.run import JobState
from tests.jobs.conftest import Slipway

STEP = "[0] step 1/6  loss 8.8861  lr 6.25e-05  |g| 1.71  89.4 sequences/s  0:00:25 left"


@dataclass
class Thing:
    """Hold whatever a job or a target has that is asked for here."""

    id: str = "a/1"
    name: str = "neox"
    state: JobState = JobState.SUCCEEDED
    file_system_mount: str | None = None


@dataclass
class Found:
    run: Thing
    target: Thing


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Found:
    found = Found(Thing(), Thing(file_system_mount=str(tmp_path / "shared")))
    line = LogLine(time=datetime(2026, 11, 22, tzinfo=UTC), node=0, rank=0, text=STEP)

    def lines(*_: Any, **__: Any) -> Sequence[LogLine]:
        return [line]

    monkeypatch.setattr(find, "targets_to_search", lambda *_: [])
    monkeypatch.setattr(find, "find_run", lambda *_: found)
    monkeypatch.setattr(logs, "follow_lines", lines)
    return found


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A program in TensorBoard's place notes what it was asked to show, and ends."""
    note = tmp_path / "served.txt"
    code = (
        "import pathlib, sys; folder = pathlib.Path(sys.argv[2]); "
        f"pathlib.Path({str(note)!r}).write_text(' '.join([*sys.argv[1:], *os.listdir(folder)]))"
    )
    program = [sys.executable, "-c", f"import os; {code}"]
    monkeypatch.setattr(curves, "_program", lambda: program)
    return note


@pytest.mark.usefixtures("job")
def test_a_machine_without_the_cluster_s_files_is_shown_the_charts_of_the_log(
    slipway: Slipway, served: Path
) -> None:
    assert slipway("report", "tensorboard", "neox", "--port", "21650")[0] == 0
    told = served.read_text().split()
    assert told[0] == "--logdir"
    assert told[2:] == ["--port", "21650", "events.out.tfevents.0.a-1"]
    assert not Path(told[1]).exists()


def test_a_machine_with_the_cluster_s_files_is_shown_those_of_the_job(
    slipway: Slipway, served: Path, job: Found
) -> None:
    own = Path(job.target.file_system_mount or "") / "logs" / "neox"
    own.mkdir(parents=True)
    assert slipway("report", "tensorboard", "neox")[0] == 0
    assert served.read_text() == f"--logdir {own} --port 6006"


@pytest.mark.usefixtures("job")
def test_charts_can_be_written_for_another_machine(slipway: Slipway, tmp_path: Path) -> None:
    code, _, err = slipway("report", "tensorboard", "neox", "--write", str(tmp_path / "charts"))
    assert code == 0
    assert [path.name for path in (tmp_path / "charts").iterdir()] == ["events.out.tfevents.0.a-1"]
    assert f"tensorboard --logdir {tmp_path / 'charts'}" in err
