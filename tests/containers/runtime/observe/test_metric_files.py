"""Files of metrics become lines of the log: whole records, each once, whatever else is in the folder."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.runtime.observe.metric_files import RECORDS_NAME, MetricFiles, thinned
from slipway.containers.runtime.observe.telemetry import first_record, scalars_record
from slipway.jobs.submit.metrics import read
from tests.containers.runtime.nodes import Cluster

EVENTS = "events.out.tfevents.1700000000.host.1.0"


def append(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(content)


def test_records_are_told_once_and_only_when_they_are_whole(tmp_path: Path) -> None:
    files = MetricFiles(tmp_path)
    append(tmp_path / RECORDS_NAME, b'{"step": 1, "loss": 2.5, "note": "x", "ok": true}\n{"step": 2, "lo')
    assert files.new_rows() == [{"step": 1, "loss": 2.5}]
    append(tmp_path / RECORDS_NAME, b'ss": 2.25}\nno JSON\n[]\n{"loss": 1}\n{"step": 3}\n')
    assert files.new_rows() == [{"step": 2, "loss": 2.25}]
    assert files.new_rows() == []


def test_what_an_earlier_attempt_wrote_is_not_told_again(tmp_path: Path) -> None:
    append(tmp_path / RECORDS_NAME, b'{"step": 1, "loss": 2.5}\n')
    append(tmp_path / "runs" / EVENTS, first_record(1.0) + scalars_record(2.0, 1, {"loss": 3.0}))
    files = MetricFiles(tmp_path)
    append(tmp_path / RECORDS_NAME, b'{"step": 2, "loss": 2.25}\n')
    assert files.new_rows() == [{"step": 2, "loss": 2.25}]


def test_scalars_of_a_step_are_one_row_and_a_torn_record_waits_for_its_end(tmp_path: Path) -> None:
    files, events = MetricFiles(tmp_path), tmp_path / "runs" / "mine" / EVENTS
    last = scalars_record(4.0, 20, {"train/loss": 1.5})
    both = scalars_record(2.0, 10, {"train/loss": 2.5}) + scalars_record(3.0, 10, {"eval/loss": 3.0})
    append(events, first_record(1.0) + both + last[:-3])
    assert files.new_rows() == [{"step": 10, "train/loss": 2.5, "eval/loss": 3.0}]
    append(events, last[-3:])
    assert files.new_rows() == [{"step": 20, "train/loss": 1.5}]


def test_pytorch_s_own_writer_is_read(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard", reason="torch is not installed")
    files = MetricFiles(tmp_path)
    with tensorboard.SummaryWriter(str(tmp_path / "runs")) as writer:
        writer.add_scalar("train/loss", 0.5, 7)
        writer.add_text("note", "x" * 100_000, 7)
        writer.add_scalar("train/grad_norm", math.inf, 8)
    assert files.new_rows() == [{"step": 7, "train/loss": 0.5}, {"step": 8, "train/grad_norm": math.inf}]


def test_slipway_s_own_charts_pipes_and_damaged_files_are_passed_over(tmp_path: Path) -> None:
    files = MetricFiles(tmp_path)
    append(tmp_path / "events.out.tfevents.1.attempt-1.7", scalars_record(2.0, 1, {"train/loss": 3.0}))
    append(tmp_path / EVENTS, b"\xff" * 4096)
    append(tmp_path / "sub" / RECORDS_NAME, b'{"step": NaN, "loss": 1}\n' + b"[" * 100_000 + b"\n")
    os.mkfifo(tmp_path / "sub" / f"{EVENTS}.pipe")
    assert files.new_rows() == []


@given(st.binary(max_size=300), st.integers(0, 60))
def test_no_content_of_an_event_stops_the_reader(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cut: int
) -> None:
    """A record with a right frame may hold anything: any writer can compute its CRC."""
    folder = tmp_path_factory.mktemp("events")
    files, whole = MetricFiles(folder), scalars_record(2.0, 10, {"loss": 2.5})
    frame = whole[:12] + (data + bytes(len(whole)))[: len(whole) - 16] + whole[-4:]
    append(folder / EVENTS, frame + whole[: len(whole) - cut])
    assert len(files.new_rows()) <= 2


def test_a_log_is_not_flooded(tmp_path: Path) -> None:
    rows = [{"step": float(step), "loss": 1.0} for step in range(1000)]
    shown = thinned(rows)
    assert len(shown) == 50
    assert shown[-1] == rows[-1]


def test_the_launcher_puts_them_into_the_log_as_lines_of_the_first_rank(
    cluster: Cluster, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    append(logs / RECORDS_NAME, b'{"step": 1, "loss": 9}\n')
    record = json.dumps({"step": 2, "loss": 2.5, "eval/loss": 3})
    words = {"0": [f"record {logs / RECORDS_NAME} {record}"], "1": ["show"]}
    nodes = cluster.all(2, words, SLIPWAY_LOGS=logs)
    assert [node.end() for node in nodes] == [0, 0]
    (found,) = read(nodes[0].text.splitlines())
    assert (found.step, found.metrics) == (2, {"loss": 2.5, "eval_loss": 3.0})
    assert "2.5" not in nodes[1].text
