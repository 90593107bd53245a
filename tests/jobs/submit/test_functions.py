"""A function runs on ranks that the real launcher starts, with the yard's S3; only Batch is missing.

tests/end_to_end/own_function.py does all of it on deployed clusters.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import slipway
from slipway import FunctionFailed, RunOptions, SlipwayError
from slipway.containers.recipes.command.config import MODULE
from slipway.containers.tasks.call import MODULE as CALL
from slipway.containers.tasks.call import main
from slipway.jobs.submit import functions
from slipway.jobs.submit.functions import FunctionJob, NoResult
from slipway.jobs.submit.logs import LogLine
from slipway.jobs.words.job import submission_name
from slipway.jobs.words.run import Attempt, Found, JobState, rank_of
from slipway.jobs.words.targets import BatchTarget
from tests.jobs.deployed import job_names
from tests.jobs.plan.run.test_clusters import run as run_of
from tests.yard.conftest import RunningYard

ROOT = Path(__file__).resolve().parents[3]
RANKS = 2
CODE = """
import os
import sys

def place(factor, more=()):
    return {"rank": int(os.environ["RANK"]) * factor, "more": more, "folder": names()}

def names(): return sorted(set(os.listdir()) - {"__pycache__"})

def fail(rank):
    if int(os.environ["RANK"]) == rank:
        print("about to fail")
        raise ValueError("too large")

def double(x): return [x * 2]

def leave(): sys.exit(0)

def unspeakable(): return {1, 2}

async def later(): ...
"""


@pytest.fixture
def code(target: BatchTarget, yard_shell: RunningYard, tmp_path: Path) -> ModuleType:
    """Import a module from a new folder; the cluster has its bucket."""
    yard_shell.client("s3").create_bucket(Bucket=target.bucket)
    folder = tmp_path / "project"
    folder.mkdir()
    name = f"functions_{tmp_path.name}"
    (folder / f"{name}.py").write_text(CODE)
    (folder / "rows.txt").write_text("1 2 3")
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


def call(function: Callable[..., Any], *arguments: object, **named: Any) -> FunctionJob[Any]:
    options = RunOptions(processes_per_node=RANKS)
    return slipway.run(function, *arguments, on="dl1", options=options, **named)


def on_a_node(job: FunctionJob[Any], folder: Path) -> subprocess.CompletedProcess[str]:
    """Start the ranks as a node of the cluster does."""
    settings = job.submitted.prepared.job.settings
    own = {"SLIPWAY_JOB": job.name, "SLIPWAY_PROCESSES_PER_NODE": str(RANKS), "TMPDIR": str(folder)}
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return subprocess.run(
        [sys.executable, "-m", "slipway.containers.runtime.launch", "--module", MODULE, "--", *words],
        cwd=ROOT,
        env={**os.environ, **own, "SLIPWAY_ACCOUNT": job.submitted.prepared.target.account},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def rank(job: FunctionJob[Any], patch: pytest.MonkeyPatch, folder: Path) -> int:
    """Be the only rank of the job, in the folder."""
    environment = {"SLIPWAY_JOB": job.name, "SLIPWAY_ACCOUNT": job.submitted.prepared.target.account}
    for name, value in environment.items():
        patch.setenv(name, value)
    patch.setattr(sys, "path", list(sys.path))
    patch.chdir(folder)
    words = json.loads(job.submitted.prepared.job.settings["command"])
    return main(words[words.index(CALL) + 1 :])


def succeed(patch: pytest.MonkeyPatch) -> None:
    def refresh(job_id: str, target: BatchTarget) -> Found[BatchTarget]:
        return Found(run=run_of(state=JobState.SUCCEEDED), target=target, detail={})

    patch.setattr(functions, "refresh", refresh)


def test_each_rank_returns_its_own_and_the_same_call_is_the_same_job(
    code: ModuleType,
    target: BatchTarget,
    yard_shell: RunningYard,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = call(code.place, 10, more=(1, "two"))
    assert call(code.place, 10, more=(1, "two")).name == job.name
    assert job_names(yard_shell, target) == [job.name]
    assert call(code.place, 11).name != job.name
    ran = on_a_node(job, tmp_path)
    assert ran.returncode == 0, ran.stdout
    succeed(monkeypatch)
    files = sorted([f"{code.__name__}.py", "rows.txt"])
    assert job.result() == {"rank": 0, "more": [1, "two"], "folder": files}
    assert [each["rank"] for each in job.results()] == [0, 10]


def test_tensors_travel_both_ways(code: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    job = call(code.double, torch.arange(3))
    with monkeypatch.context() as patch:
        assert rank(job, patch, tmp_path) == 0
    succeed(monkeypatch)
    (found,) = job.result()
    assert torch.equal(found, torch.tensor([0, 2, 4]))


def test_an_exception_is_said_by_its_rank_in_the_line_that_is_looked_for(
    code: ModuleType, tmp_path: Path
) -> None:
    job = call(code.fail, 1)
    ran = on_a_node(job, tmp_path)
    assert ran.returncode == 1
    now = datetime.now(UTC)
    lines = [line_of(text, now) for text in ran.stdout.splitlines()]
    found = Found(run=run_of(state=JobState.FAILED), target=job.submitted.prepared.target, detail={})
    failed = functions.failure_of(found, lines)
    assert (failed.rank, failed.lines[0], failed.lines[-1]) == (
        1,
        "about to fail",
        "error: ValueError: too large",
    )
    assert failed.message.splitlines()[0].endswith("failed on rank 1: ValueError: too large")
    assert 'raise ValueError("too large")' in failed.message


@pytest.mark.parametrize(("function", "kind"), [("unspeakable", "set"), ("later", "coroutine")])
@pytest.mark.filterwarnings("ignore:coroutine")
def test_what_cannot_be_returned_ends_the_rank(
    function: str,
    kind: str,
    code: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rank(call(getattr(code, function)), monkeypatch, tmp_path) == 2
    said = f"what {code.__name__}:{function} returned is of type {kind}, which does not travel"
    assert f"error: {said}" in capsys.readouterr().err


def test_a_rank_that_leaves_without_a_result_is_named(
    code: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = call(code.leave)
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        rank(job, patch, tmp_path)
    succeed(monkeypatch)
    with pytest.raises(NoResult, match=r"rank 0 of leave-.* ended well and left no result"):
        job.result()


def test_a_result_that_is_larger_than_any_rank_writes_is_not_read(
    code: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = call(code.double, "x" * 100)
    with monkeypatch.context() as patch:
        assert rank(job, patch, tmp_path) == 0
    succeed(monkeypatch)
    assert job.result() == ["x" * 200]
    monkeypatch.setattr(functions, "MOST_BYTES", 200)
    with pytest.raises(NoResult, match=r"the result of rank 0 of double-\w+ has \d+ bytes, and at most 200"):
        job.result()


def test_arguments_that_somebody_changed_are_not_read(
    code: ModuleType,
    target: BatchTarget,
    yard_shell: RunningYard,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = call(code.place, 1)
    s3 = yard_shell.client("s3")
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket=target.bucket, Prefix="sources/")["Contents"]]
    (key,) = [key for key in keys if key.endswith(".safetensors")]
    s3.put_object(Bucket=target.bucket, Key=key, Body=b"other")
    assert rank(job, monkeypatch, tmp_path) == 2
    assert "does not match the digest in its name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("import slipway; slipway.run(print, on='dl1')", "slipway.run was called on a node of place-"),
        (
            "from slipway.jobs.nowhere import run",
            "imports slipway.jobs.nowhere, and nodes have only slipway.containers",
        ),
    ],
)
def test_a_module_that_submits_when_it_is_imported_is_told_where_to_do_so(
    first: str,
    said: str,
    code: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = Path(str(code.__file__))
    own.write_text(f"{first}\n{own.read_text()}")
    job = call(code.place, 1)
    monkeypatch.delitem(sys.modules, code.__name__)
    assert rank(job, monkeypatch, own.parent) != 0
    error = capsys.readouterr().err
    assert said in error
    assert '`if __name__ == "__main__":`' in error


class Adder:
    def add(self) -> None: ...


@pytest.mark.parametrize(
    ("function", "arguments", "named", "said"),
    [
        (json.dumps, ({1, 2},), {}, "argument 1 is of type set, which does not travel"),
        (json.dumps, (1,), {"indent": [object()]}, r"argument indent\[0\] is of type object"),
        (
            submission_name,
            (1,),
            {},
            "submission_name cannot be called so: missing a required argument: 'target'",
        ),
        (Adder().add, (), {}, "Adder.add of an object, which does not travel"),
        (lambda: None, (), {}, "the function is <lambda> of"),
    ],
)
def test_a_call_that_cannot_travel_is_refused_before_aws_is_asked(
    function: Callable[..., object],
    arguments: tuple[object, ...],
    named: dict[str, Any],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(SlipwayError, match=said) as refused:
        slipway.run(function, *arguments, on="dl1", **named)
    assert refused.value.hint
    assert len(refused.value.message.splitlines()) == 1


def line_of(text: str, at: datetime) -> LogLine:
    return LogLine(time=at, node=0, rank=rank_of(text), text=text)


def test_the_first_rank_that_raised_in_the_last_attempt_is_the_cause(target: BatchTarget) -> None:
    began = datetime.now(UTC)
    attempt = Attempt(started_at=None, stopped_at=None, exit_code=85, reason=None)
    failed = replace(run_of(state=JobState.FAILED), started_at=began, attempts=(attempt, attempt))
    said = [
        (-9, "[0] error: RuntimeError: lost another rank"),
        (1, "[1] error: ValueError: the cause"),
        (2, "[0] error: RuntimeError: connection closed by peer"),
        (3, "[node 0] rank 1 ended with exit code 1"),
    ]
    lines = [line_of(text, began + timedelta(seconds=after)) for after, text in said]
    found = functions.failure_of(Found(run=failed, target=target, detail={}), lines)
    assert (found.rank, found.lines) == (1, ("error: ValueError: the cause",))


def test_a_job_that_no_rank_speaks_of_gives_its_reason_and_last_lines(
    target: BatchTarget,
) -> None:
    failed = replace(run_of(state=JobState.FAILED), reason="Host EC2 terminated")
    lines = [line_of(f"[node 0] {number}", datetime.now(UTC)) for number in range(30)]
    found = functions.failure_of(Found(run=failed, target=target, detail={}), lines)
    assert isinstance(found, FunctionFailed)
    assert found.rank is None
    assert found.message.splitlines()[0].endswith("failed: Host EC2 terminated")
    assert (len(found.lines), found.lines[-1]) == (20, "[node 0] 29")
