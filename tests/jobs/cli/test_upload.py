"""`slipway cluster upload` brings files to a cluster; `slipway report tensorboard` shows a job's charts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.cli import curves
from slipway.jobs.cloud import aws
from slipway.jobs.submit import find, logs
from slipway.jobs.submit.curve import ScalarFile
from slipway.jobs.submit.logs import LogLine
from slipway.jobs.words.run import JobState
from tests.jobs.conftest import Slipway
from tests.jobs.deployed import record_target
from tests.jobs.submit.test_logs import describe, found, node, put
from tests.jobs.words.test_targets import TARGET
from tests.yard.conftest import RunningYard

BUCKET = "dl1-storage-of-datasets"


@pytest.fixture
def bucket(yard_shell: RunningYard) -> RunningYard:
    yard_shell.client("s3").create_bucket(Bucket=BUCKET)
    target = replace(TARGET, name="dl1", bucket=BUCKET, account="123456789012", region="us-east-1")
    record_target(yard_shell, target)
    return yard_shell


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "mrpc"
    (root / "more").mkdir(parents=True)
    (root / "train.tsv").write_text("a\tb\n", encoding="utf-8")
    (root / "more" / "dev π.tsv").write_text("c\td\n", encoding="utf-8")
    (root / ".cache").write_text("not meant", encoding="utf-8")
    return root


def keys(yard: RunningYard) -> list[str]:
    return [
        content["Key"] for content in yard.client("s3").list_objects_v2(Bucket=BUCKET).get("Contents", [])
    ]


def test_a_bucket_that_is_gone_is_said_in_one_line(
    bucket: RunningYard, slipway: Slipway, folder: Path
) -> None:
    bucket.client("s3").delete_bucket(Bucket=BUCKET)
    err = slipway.refused("cluster", "upload", str(folder), "--on", "dl1")
    assert f"to {BUCKET}/datasets/mrpc/" in err
    assert "NoSuchBucket" in err
    assert "hint: deploy the cluster again: its bucket is gone" in err


def test_a_folder_lies_where_jobs_may_read_it(bucket: RunningYard, slipway: Slipway, folder: Path) -> None:
    code, out, err = slipway("cluster", "upload", str(folder), "--on", "dl1", "--name", "glue/mrpc")
    assert (code, out) == (0, f"s3://{BUCKET}/datasets/glue/mrpc\n")
    assert "2 of 2 files sent" in err
    assert keys(bucket) == ["datasets/glue/mrpc/more/dev π.tsv", "datasets/glue/mrpc/train.tsv"]
    body = bucket.client("s3").get_object(Bucket=BUCKET, Key="datasets/glue/mrpc/train.tsv")["Body"]
    assert body.read() == b"a\tb\n"


def test_what_is_there_already_is_not_sent_again_and_what_changed_is(
    bucket: RunningYard, slipway: Slipway, folder: Path
) -> None:
    slipway("cluster", "upload", str(folder), "--on", "dl1")
    (folder / "train.tsv").write_text("x\tb\n", encoding="utf-8")  # of the same size
    code, out, _ = slipway("cluster", "upload", str(folder), "--on", "dl1", "--json")
    done = json.loads(out)
    assert (code, done["files"], done["sent"], done["sent_bytes"]) == (0, 2, 1, 4)
    assert done["address"] == f"s3://{BUCKET}/datasets/mrpc"


def test_one_file_gets_its_own_name(bucket: RunningYard, slipway: Slipway, folder: Path) -> None:
    _, out, _ = slipway("cluster", "upload", str(folder / "train.tsv"), "--on", "dl1")
    assert out == f"s3://{BUCKET}/datasets/train.tsv\n"
    assert keys(bucket) == ["datasets/train.tsv"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gone"], "gone does not exist"),
        (["mrpc", "--name", "../jobs/x"], "cannot be part of an S3 address"),
        (["mrpc", "--name", ""], "cannot be part of an S3 address"),
        (["mrpc", "--name", "π" * 500], "has 1,025 bytes as a name in S3, which takes 1,024"),
        (["empty"], "empty holds no file"),
        (["linked"], "to is not a regular file"),
        (["around"], "more is not a regular file"),
    ],
)
def test_what_cannot_be_copied_is_refused_in_one_line_and_nothing_is_sent(
    bucket: RunningYard, slipway: Slipway, folder: Path, words: list[str], said: str
) -> None:
    (folder.parent / "empty").mkdir()
    (folder.parent / "linked").mkdir()
    (folder.parent / "linked" / "to").symlink_to(folder / "train.tsv")
    (folder.parent / "around").mkdir()
    (folder.parent / "around" / "more").symlink_to(folder / "more")
    path, *more = words
    code, out, err = slipway("cluster", "upload", str(folder.parent / path), "--on", "dl1", *more)
    errors = [line for line in err.splitlines() if line.startswith("error:")]
    assert (code, out, len(errors)) == (2, "", 1)
    assert said in errors[0]
    assert keys(bucket) == []


def test_a_folder_that_cannot_be_read_is_refused_and_not_passed_over(
    bucket: RunningYard, slipway: Slipway, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = os.scandir

    def scandir(path: str | Path) -> Any:
        if str(path).endswith("more"):
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(os, "scandir", scandir)
    err = slipway.told("cluster", "upload", str(folder), "--on", "dl1", code=2)
    assert "more cannot be read: Permission denied" in err
    assert keys(bucket) == []


# `slipway report tensorboard` serves a job's own files if it can see them, and otherwise charts of its log.
STEP = "[0] step 1/6  loss 8.8861  lr 6.25e-05  |g| 1.71  89.4 sequences/s  0:00:25 left"


@dataclass
class Thing:
    """Hold the attributes of a job or a target that the code reads here."""

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
    monkeypatch.setattr(find, "find_newest", lambda *_: found)
    monkeypatch.setattr(logs, "follow_lines", lines)
    return found


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let a program stand in for TensorBoard, which records what it was asked to show, and ends."""
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
    slipway.told("report", "tensorboard", "neox", "--port", "21650")
    told = served.read_text().split()
    assert told[0] == "--logdir"
    assert told[2:] == ["--port", "21650", "events.out.tfevents.0.a-1"]
    assert not Path(told[1]).exists()


def test_charts_follow_a_log_without_reading_it_from_its_start_again_and_again(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    client = yard_shell.client("logs")
    client.create_log_group(logGroupName=TARGET.log_group)
    put(client, "job/0", STEP)
    running = {"jobId": "0a1b", "jobName": "bert", "status": "RUNNING", "nodeProperties": {"numNodes": 1}}
    describe(yard_shell, *([[node(0, "job/0")], [running]] * 100))
    server = subprocess.Popen(["sleep", "1000"])
    from_the_start: list[bool] = []

    def count(params: dict[str, Any], **_: Any) -> None:
        from_the_start.append("nextToken" not in params)
        if len(from_the_start) == 5:
            server.terminate()  # as Ctrl-C in the terminal does

    reader = aws.reader("logs", TARGET.region)
    reader.meta.events.register("before-parameter-build.cloudwatch-logs.GetLogEvents", count)
    monkeypatch.setattr(logs, "POLL_SECONDS", 0.05)
    charts = ScalarFile(tmp_path / "charts")
    curves._follow(found("RUNNING", nodes=1), charts, server)
    assert from_the_start == [True, *[False] * (len(from_the_start) - 1)]
    assert charts.seen == 1
    assert charts.path.stat().st_size > 0


def test_a_machine_with_the_cluster_s_files_is_shown_those_of_the_job(
    slipway: Slipway, served: Path, job: Found
) -> None:
    own = Path(job.target.file_system_mount or "") / "logs" / "neox"
    own.mkdir(parents=True)
    slipway.told("report", "tensorboard", "neox")
    assert served.read_text() == f"--logdir {own} --port 6006"


@pytest.mark.usefixtures("job")
def test_charts_can_be_written_for_another_machine(slipway: Slipway, tmp_path: Path) -> None:
    err = slipway.told("report", "tensorboard", "neox", "--write", str(tmp_path / "charts"))
    assert [path.name for path in (tmp_path / "charts").iterdir()] == ["events.out.tfevents.0.a-1"]
    assert f"tensorboard --logdir {tmp_path / 'charts'}" in err
