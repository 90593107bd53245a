"""A plan of small trainings runs on two different clusters, whatever happens to a job or its runner."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway.yard.machines.hosts import boot_ways
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.services.pcs import differences as slurm_differences
from tests.end_to_end.conftest import ROOT, Shell
from tests.end_to_end.in_process import delete, deploy, deployed
from tests.packages import require
from tests.yard.services.sagemaker.training_site import require_training

require("deepspeed", reason="the extra 'deepspeed' is not installed")
pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]

OWN_TASKS = Path(__file__).parent / "apps" / "own_tasks"
SAMPLE = ("--set", "sample_megabytes=1", "--set", "duplicates=1", "--processes-per-node", "1")
SMALL = {
    "size": "tiny",
    "precision": "fp32",
    "zero": "0",
    "micro_batch": "4",
    "steps": "20",
    "checkpoint_every": "10",
    "log_every": "5",
}
DOOMED = "doomed"  # it loses its machine, and trains long enough for that
UNWANTED = "unwanted"  # it is cancelled, and trains until then
EITHER = "either"  # it may take either cluster
LONG = {"steps": "80", "optimizer": "lamb", "learning_rate": "1e-3", "global_batch": "8"}
TRAININGS = {
    DOOMED: LONG,
    UNWANTED: {**LONG, "steps": "5000"},
    EITHER: {"optimizer": "adamw", "learning_rate": "1e-3", "global_batch": "8"},
    "lamb": {"optimizer": "lamb", "learning_rate": "1e-4", "global_batch": "4"},
    "adamw": {"optimizer": "adamw", "learning_rate": "1e-4", "global_batch": "4"},
}
ONE, TWO, ON_C6I = ("dl1.24xlarge", 1, 20), ("dl1.24xlarge", 2, 14), ("c6i.16xlarge", 1, 20)
SLOW = ("dl1.24xlarge", 1, 40)
MODES = {DOOMED: [("c6i.16xlarge", 1, 40)], UNWANTED: [SLOW], EITHER: [ONE, TWO, ON_C6I]}
POOLS = [
    {"type": "dl1.24xlarge", "nodes": 2, "devices_per_node": 1, "cluster": "dl1"},
    {"type": "c6i.16xlarge", "nodes": 1, "devices_per_node": 1, "cluster": "c6i"},
]


@pytest.fixture(scope="module")
def clusters(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    if not best_tier().isolated:
        pytest.skip("this machine can make no namespaces, so there are no hosts for c6i")
    stacks = deploy(shell, tmp_path_factory.mktemp("dl1"), "dl1")
    stacks += deploy(shell, tmp_path_factory.mktemp("c6i"), "c6i", max_nodes="1")
    shell.must("slipway", "image", "build", "gaudi")
    for cluster in ("dl1", "c6i"):
        shell.must("slipway", "submit", "prepare_bert", "--on", cluster, "--nodes", "1", *SAMPLE)
    for cluster in ("dl1", "c6i"):
        shell.must("slipway", "submit", "prepare_bert", "--on", cluster, "--nodes", "1", *SAMPLE, "--follow")
    yield shell
    for cluster in ("dl1", "c6i"):  # later tests in this yard deploy clusters with these names
        shell.must("slipway", "cluster", "empty", cluster, "--yes")
    delete(shell, stacks)


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    listed = [
        {
            "name": name,
            "job": {
                "name": name,
                "recipe": "bert_pretrain",
                "nodes": 1,
                "processes_per_node": 1,
                "settings": {**SMALL, **settings},
            },
            "modes": [
                {"technique": "data", "type": kind, "devices": devices, "seconds": seconds}
                for kind, devices, seconds in MODES.get(name, [ONE])
            ],
        }
        for name, settings in TRAININGS.items()
    ]
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"pools": POOLS, "jobs": listed}))
    return path


def test_a_plan_runs_on_two_clusters_though_a_machine_and_its_runner_are_killed_and_a_job_is_cancelled(
    clusters: Shell, jobs: Path
) -> None:
    plan = jobs.with_name("plan.json")
    clusters.must("slipway", "plan", "make", str(jobs), "--time-limit", "2", "--output", str(plan))
    page = jobs.with_name("plan.html")
    run = ("slipway", "plan", "run", str(plan), "--switch-seconds", "30", "--html", str(page), "--json")
    with started(clusters, *run) as killed:
        lines = said(killed)
        first = next(line for line in lines if line.startswith(f"{DOOMED} goes to c6i as ")).split()[-1]
        (host,) = clusters.data("slipway", "status", "--on", "c6i", "--nodes", "--json")
        clusters.follow_until(first, "saved step 10")
        clusters.must("slipway", "yard", "kill-node", host["name"])
        again = next(line for line in lines if f"{DOOMED} was lost" in line and "planned again" in line)
        while UNWANTED not in (running := unfinished(clusters)):
            pass  # its runner sends it when its turn comes
        killed.send_signal(signal.SIGKILL)
    clusters.must("slipway", "cancel", running[UNWANTED])
    done = clusters.run(*run, timeout_s=600)
    assert again.startswith("planned again, since")
    assert f"error: not every job succeeded: {UNWANTED}\n" in done.text, done.text
    found = json.loads(done.text[done.text.index("[\n") : done.text.rindex("]") + 1])
    rows = {row["job"]: row for row in found}
    assert {name: row["ended"] for name, row in rows.items() if row["ended"] != "succeeded"} == {
        UNWANTED: "withdrawn"
    }
    assert {row["cluster"] for row in found} == {"dl1", "c6i"}
    assert "What ran" in page.read_text(encoding="utf-8")
    journal = plan.with_name("plan.json.journal").read_text().splitlines()
    assert sum('"intent"' in line for line in journal) == sum(row["attempts"] for row in found)
    assert rows[DOOMED]["attempts"] == 2
    assert "resuming from step" in clusters.must("slipway", "logs", rows[DOOMED]["run"])
    assert last_loss(clusters, rows[DOOMED]["run"]) == pytest.approx(loss_alone(clusters, DOOMED), rel=1e-3)


def loss_alone(shell: Shell, name: str) -> float:
    """Submit a job of the plan on its own, and return its last loss."""
    settings = {**SMALL, **TRAININGS[name]}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    on = ("--on", "c6i", "--nodes", "1", "--processes-per-node", "1", "--name", "alone")
    shell.must("slipway", "submit", "bert_pretrain", *on, *words, "--follow")
    return last_loss(shell, "alone")


def unfinished(shell: Shell) -> dict[str, str]:
    """Return the ids of running and waiting jobs, by their names without digest."""
    return {each["name"].rpartition("-")[0]: each["id"] for each in shell.data("slipway", "status", "--json")}


def said(process: subprocess.Popen[str]) -> Iterator[str]:
    """Yield the lines that a command prints to stderr."""
    assert process.stderr is not None
    return iter(process.stderr)


def test_tasks_of_a_users_own_folder_are_tried_and_trained_on_clusters_though_the_script_is_killed(
    clusters: Shell, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    own, sweep = sweep_of_own_tasks(clusters, project, "dl1", "c6i")
    with started(own, *sweep) as killed:
        assert any(" goes to " in line for line in said(killed))
    told, log = ended(own, *sweep)
    assert "going on with " in log
    assert set(told["trained"].values()) <= {"dl1", "c6i"}
    assert told["sources"] == {"c6i": "measured", "dl1": "measured"}
    assert told["devices"] == {"fast": 1, "slow": 2}
    assert told["differences"] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert told["again"] == 0
    assert set(told["trained"]) == {"fast", "slow"}
    assert told["not_fitting"] == {"data on 1 of c6i": "ValueError: this model was never meant to be"}
    names = [each["name"].split("-")[0] for each in own.data("slipway", "status", "--all", "--json")]
    assert {name: names.count(name) for name in ("fast", "slow", "trial")} == {
        "fast": 1,
        "slow": 1,
        "trial": 4,
    }


def test_tasks_are_tried_and_trained_on_slurm_and_on_sagemaker(shell: Shell, tmp_path: Path) -> None:
    if why := slurm_differences.obstacle() or boot_ways.obstacle_here():
        pytest.skip(f"no Slurm of the yard runs here: {why}")
    require_training()
    with deployed(shell, tmp_path / "assembly", "trn1", "sagemaker", max_nodes="2"):
        own, sweep = sweep_of_own_tasks(shell, tmp_path / "project", "trn1", "sagemaker")
        told, _ = ended(own, *sweep)
    assert set(told["trained"]) == {"fast", "slow"}
    assert told["sources"] == {"trn1": "measured", "sagemaker": "measured"}
    assert told["devices"] == {"fast": 1, "slow": 2}
    assert told["differences"] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert told["again"] == 0
    assert told["not_fitting"] == {"data on 1 of sagemaker": "ValueError: this model was never meant to be"}


def sweep_of_own_tasks(shell: Shell, project: Path, *clusters: str) -> tuple[Shell, tuple[str, ...]]:
    """Return a shell with its own cache, and the command that tries and trains two tasks there."""
    shutil.copytree(OWN_TASKS, project)
    cache = {"XDG_CACHE_HOME": str(project.with_name("cache"))}
    sweep = (sys.executable, str(project / "sweep.py"), str(project / "saved"), *clusters)
    return replace(shell, environment={**shell.environment, **cache}), sweep


def ended(shell: Shell, *command: str) -> tuple[dict[str, Any], str]:
    """Run a command to its end; return what it printed as JSON, and its log."""
    with started(shell, *command) as process:
        out, log = process.communicate(timeout=600)
    assert process.returncode == 0, log
    return dict(json.loads(out)), log


@contextmanager
def started(shell: Shell, *command: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command, and end it with the block."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=dict(shell.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def last_loss(shell: Shell, job: str) -> float:
    loss: float = shell.data("slipway", "report", "curve", job, "--json")[-1]["loss"]
    return loss
