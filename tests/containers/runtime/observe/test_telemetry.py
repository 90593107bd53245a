"""Telemetry is always valid, survives a crash, and never stops a training."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.runtime.observe import telemetry as tensorboard_file
from slipway.containers.runtime.observe.telemetry import STEPS_NAME, StepRecord, Telemetry

ROOT = Path(__file__).parents[4]


def step(number: int, loss: float = 1.0, **more: Any) -> StepRecord:
    return StepRecord(step=number, loss=loss, learning_rate=0.001, seconds=0.5, **more)


def lines(folder: Path) -> list[Any]:
    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    text = (folder / STEPS_NAME).read_text()
    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def test_every_step_is_one_line_of_json(tmp_path: Path) -> None:
    with Telemetry(tmp_path, attempt=2, clock=lambda: 12.5) as telemetry:
        telemetry.record(
            step(1, 7.5, sequences_per_second=44.0, tokens_per_second=5632.0, memory_bytes=1 << 30)
        )
        telemetry.record(step(2, 7.25, gradient_norm=1.5))
    first, second = lines(tmp_path)
    assert first == {
        "time": 12.5,
        "attempt": 2,
        "step": 1,
        "loss": 7.5,
        "learning_rate": 0.001,
        "seconds": 0.5,
        "sequences_per_second": 44.0,
        "tokens_per_second": 5632.0,
        "memory_bytes": 1 << 30,
    }
    assert second["gradient_norm"] == 1.5


@given(
    values=st.lists(
        st.tuples(st.floats(), st.floats() | st.none(), st.integers(0, 2**62)), min_size=1, max_size=5
    )
)
def test_any_numbers_at_all_are_valid_json(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[float, float | None, int]]
) -> None:
    """F48"""
    folder = tmp_path_factory.mktemp("logs")
    with Telemetry(folder, attempt=1) as telemetry:
        for loss, norm, number in values:
            telemetry.record(step(number, loss, gradient_norm=norm))
    assert [record["step"] for record in lines(folder)] == [number for _, _, number in values]


def test_a_loss_that_is_no_number_is_null_and_said(tmp_path: Path) -> None:
    with Telemetry(tmp_path, attempt=1) as telemetry:
        telemetry.record(step(1, float("nan"), gradient_norm=float("inf")))
    (record,) = lines(tmp_path)
    assert record["loss"] is None
    assert record["not_finite"] == {"loss": "nan", "gradient_norm": "inf"}


def test_a_line_torn_by_a_crash_is_dropped_by_the_next_attempt(tmp_path: Path) -> None:
    with Telemetry(tmp_path, attempt=1) as telemetry:
        telemetry.record(step(1))
    with (tmp_path / STEPS_NAME).open("ab") as file:
        file.write(b'{"step": 2, "lo')
    with Telemetry(tmp_path, attempt=2) as telemetry:
        telemetry.record(step(2))
    assert [(record["attempt"], record["step"]) for record in lines(tmp_path)] == [(1, 1), (2, 2)]


def test_what_was_recorded_is_there_after_a_kill(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path;"
        "from tests.containers.runtime.observe.test_telemetry import *;"
        "telemetry = Telemetry(Path(sys.argv[1]), attempt=1);"
        "[telemetry.record(step(number)) for number in range(1, 4)];"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", program, tmp_path], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [record["step"] for record in lines(tmp_path)] == [1, 2, 3]


def test_a_sink_that_fails_is_said_once_and_the_training_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """F49"""
    (tmp_path / "file").write_text("")
    with Telemetry(tmp_path / "file", attempt=1) as telemetry:
        for number in range(3):
            telemetry.record(step(number))
    complaints = capfd.readouterr().err.splitlines()
    assert len(complaints) == 2  # one a sink
    assert all("training continues" in line for line in complaints)


def test_a_disk_that_fills_and_empties_leaves_whole_lines(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Telemetry(tmp_path, attempt=1, tensorboard=False) as telemetry:
        telemetry.record(step(1))
        size = (tmp_path / STEPS_NAME).stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
        try:
            telemetry.record(step(2))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        telemetry.record(step(3))
    assert [record["step"] for record in lines(tmp_path)] == [1, 3]


def test_every_step_is_a_beat_even_where_nothing_is_written(tmp_path: Path) -> None:
    progress = tmp_path / "progress"
    with Telemetry(None, attempt=1, progress=progress) as telemetry:
        assert progress.read_text().startswith("start\n")
        telemetry.record(step(41))
        first = progress.read_text()
        telemetry.record(step(41))
        assert first.startswith("41\n")
        assert progress.read_text() != first, "a rank that repeats a step lives"


def test_a_beat_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    with Telemetry(None, attempt=1, progress=tmp_path / "gone" / "progress") as telemetry:
        telemetry.record(step(1))


@pytest.mark.parametrize(
    ("data", "crc"),
    [  # RFC 3720, B.4
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"123456789", 0xE3069283),
        (b"", 0),
    ],
)
def test_the_checksum_is_castagnolis(data: bytes, crc: int) -> None:
    assert tensorboard_file.crc32c(data) == crc


def test_tensorboard_reads_the_events(tmp_path: Path) -> None:
    loader: Any = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    with Telemetry(tmp_path, attempt=1) as telemetry:
        telemetry.record(step(300, 2.5, gradient_norm=1e300))
        telemetry.record(step(2**40, float("nan")))
    (path,) = tmp_path.glob("events.out.tfevents.*")
    events = list(loader.LegacyEventFileLoader(os.fspath(path)).Load())
    assert events[0].file_version == "brain.Event:2"
    assert [event.step for event in events[1:]] == [300, 2**40]
    read = {value.tag: value.simple_value for value in events[1].summary.value}
    assert read["train/loss"] == 2.5
    assert read["train/gradient_norm"] == float("inf")
    assert set(read) == {"train/loss", "train/learning_rate", "train/seconds", "train/gradient_norm"}
    lost = {value.tag: value.simple_value for value in events[2].summary.value}["train/loss"]
    assert lost != lost
