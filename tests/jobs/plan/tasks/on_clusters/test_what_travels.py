"""A task that no node could find or run is refused before it is sent; a trial's log becomes a profile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slipway import BaseTechnique, HParams, SlipwayError, Task, orchestrate, register, search
from slipway.jobs.plan.tasks import library
from slipway.jobs.plan.tasks.on_clusters.searching_there import profile_from
from slipway.jobs.plan.tasks.on_clusters.sent_code import ClusterOrder, packed_code
from slipway.jobs.words.run import JobState, Run
from tests.containers.tasks import own_code
from tests.jobs.plan.run.test_clusters import run

pytest.importorskip("torch")

MODULE = """
def load_model(): return None
def load_dataloader(): return []
def loss(outputs, targets): return outputs.mean()
"""
SCRIPT = """
from slipway import HParams, Task, orchestrate
{more}
Call = orchestrate
Call([Task({model}, models.load_dataloader, models.loss, HParams(1e-2, epochs=1))], on=["dl1"])
"""


class Own(BaseTechnique):
    def execute(task: Any, gpus: list[int], task_id: int, batch_count: int | None) -> None:  # noqa: N805
        return

    def search(task: Any, gpus: list[int], task_id: int) -> object:  # noqa: N805
        return None


def own_task(model: Callable[..., object] = own_code.perceptron) -> Task:
    return Task(model, own_code.points, own_code.class_loss, HParams(1e-2, epochs=1), name="one")


def run_script(folder: Path, *words: str) -> str:
    """Run Python without any AWS; return its last line."""
    (folder / "models.py").write_text(MODULE)
    nowhere = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "XDG_CACHE_HOME": str(folder)}
    ran = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, **nowhere},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    return ran.stderr.splitlines()[-1]


def test_a_function_of_the_script_that_runs_is_refused_by_its_task_and_its_place(tmp_path: Path) -> None:
    more = "import models\ndef own_model(): return models.load_model()"
    (tmp_path / "sweep.py").write_text(SCRIPT.format(more=more, model="own_model"))
    said = run_script(tmp_path, "sweep.py")
    assert "load_model of task 'own_model-" in said
    assert "is defined in sweep.py, the script that runs, which nodes do not run" in said


def test_modules_of_two_folders_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "theirs.py").write_text(MODULE)
    more = f"import sys; sys.path.insert(0, {str(other)!r})\nimport models, theirs"
    (tmp_path / "sweep.py").write_text(SCRIPT.format(more=more, model="theirs.load_model"))
    said = run_script(tmp_path, "sweep.py")
    assert f"lies in {other} and load_dataloader of task" in said


def test_a_module_that_git_ignores_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("models.py\n")
    (tmp_path / "sweep.py").write_text(SCRIPT.format(more="import models", model="models.load_model"))
    said = run_script(tmp_path, "sweep.py")
    assert "is defined in models.py, which git ignores, so that it is not sent" in said


def test_a_technique_of_the_users_own_is_refused_on_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.VARIABLE, str(tmp_path / "techniques.json"))
    monkeypatch.setattr(library, "_of_this_session", {})
    register("own", Own)
    with pytest.raises(SlipwayError, match="technique 'own' is a class of yours, and trains on this machine"):
        search([own_task()], ["data", "own"], on=["dl1"])


@pytest.mark.parametrize("on", ["dl1", [], ["dl1", "dl1"]])
def test_what_names_no_clusters_is_refused(on: list[str]) -> None:
    for call in (search, orchestrate):
        with pytest.raises(SlipwayError, match=r"names of clusters are wanted, each once|allowed is a list"):
            call([own_task()], on=on)
    with pytest.raises(SlipwayError, match="devices is 0"):
        orchestrate([own_task()], on=["dl1"], devices=0)


def test_the_folder_that_modules_are_imported_from_is_sent() -> None:
    with packed_code([own_task()]) as packed:
        assert packed.files > 1000  # of this repository, from which tests.containers.tasks is imported
    assert ClusterOrder.of(["dl1"], None, ClusterOrder(names=()).agreed).names == ("dl1",)


# A trial's log becomes a profile: its seconds, or why it does not fit, and whether that is kept.
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
FACTS = '{"parameters": 5, "layers": 1, "widest": 2, "rows": 8, "batches": null, "device": "cpu"}'


def timed(**facts: Any) -> Run:
    return run(started_at=BEGAN, stopped_at=BEGAN + timedelta(seconds=30), **facts)


def test_a_trial_that_went_well_tells_a_batch_and_what_its_start_took() -> None:
    lines = ["[0] step 4/4  loss 1.0", f'[0] trial: {{"facts": {FACTS}, "seconds": [9.0, 1.0, 2.0, 3.0]}}']
    found = profile_from(timed(state=JobState.SUCCEEDED, status="SUCCEEDED"), lines)
    assert (found.seconds, found.error, found.startup) == (2.0, 0.5, 30 - 4 * 2.0)
    assert found.facts == {"parameters": 5, "layers": 1, "widest": 2, "rows": 8, "batches": None}
    assert found.is_kept


@pytest.mark.parametrize(
    ("status", "why", "lines", "reason", "is_kept"),
    [
        ("FAILED", "exit code 2", ["[1] error: no layers", f'trial: {{"facts": {FACTS}, "seconds": []}}'],
         "no layers", True),
        ("FAILED", "exit code 137", [], "exit code 137", False),
        ("FAILED", "Host EC2 (instance i-1) terminated.", ["[0] error: lost another rank: gloo"],
         "Host EC2 (instance i-1) terminated.", False),
        ("FAILED", "Host EC2 (instance i-1) terminated.", ["[0] error: no layers"], "no layers", False),
        ("CANCELLED", None, [], "its job ended as CANCELLED", False),
    ],
)  # fmt: skip
def test_a_trial_that_failed_says_why_and_only_what_would_happen_again_is_kept(
    status: str, why: str | None, lines: list[str], reason: str, is_kept: bool
) -> None:
    found = profile_from(timed(state=JobState.FAILED, status=status, reason=why), lines)
    assert (found.seconds, found.reason, found.is_kept) == (None, reason, is_kept)
