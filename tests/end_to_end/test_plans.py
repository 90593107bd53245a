"""A plan of small trainings runs on two unlike clusters, whatever happens to a job and to its runner."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from slipway.yard.machines.isolation.tiers import best_tier
from tests.end_to_end.conftest import ROOT, Shell

pytest.importorskip("deepspeed", reason="the extra 'deepspeed' is not installed")
pytestmark = [pytest.mark.cdk, pytest.mark.slow]

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
DOOMED = "lamb-1e-3-8"  # it loses its machine, and trains long enough for that
EITHER = "adamw-1e-3-8"  # it may take either cluster
POOLS = [
    {"type": "dl1.24xlarge", "nodes": 2, "devices_per_node": 1, "cluster": "dl1"},
    {"type": "c6i.16xlarge", "nodes": 1, "devices_per_node": 1, "cluster": "c6i"},
]


@pytest.fixture(scope="module")
def clusters(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Left to the yard's end."""
    if not best_tier().isolated:
        pytest.skip("this machine can make no namespaces, so there are no hosts for c6i")
    assembly = str(tmp_path_factory.mktemp("assembly"))
    kept = ("-c", "dl1.keep_data=false", "-c", "c6i.keep_data=false", "-c", "c6i.max_nodes=1")
    approved = ("--require-approval", "never", "--concurrency", "4", "--output", assembly)
    shell.must("cdk", "deploy", "dl1", "c6i", *approved, *kept)
    shell.must("slipway", "build", "gaudi")
    for cluster in ("dl1", "c6i"):
        shell.must("slipway", "submit", "prepare_bert", "--on", cluster, "--nodes", "1", *SAMPLE)
    for cluster in ("dl1", "c6i"):
        shell.must("slipway", "submit", "prepare_bert", "--on", cluster, "--nodes", "1", *SAMPLE, "--follow")
    return shell


def settings_of(name: str) -> dict[str, str]:
    optimizer, *rate, batch = name.split("-")
    longer = {"steps": "120"} if name == DOOMED else {}
    return {
        **SMALL,
        **longer,
        "optimizer": optimizer,
        "learning_rate": "-".join(rate),
        "global_batch": batch,
    }


def modes_of(name: str, batch: str) -> list[tuple[str, int, int]]:
    """Each may take one node or two of dl1, one may take c6i, and the one that loses its machine must."""
    seconds = {"4": 20, "8": 26}[batch]
    one, two = ("dl1.24xlarge", 1, seconds), ("dl1.24xlarge", 2, seconds * 7 // 10)
    either = [one, two] if batch == "8" else [one]
    return {DOOMED: [("c6i.16xlarge", 1, 40)], EITHER: [*either, ("c6i.16xlarge", 1, seconds)]}.get(
        name, either
    )


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """Two optimizers, with two rates and two batches."""
    listed = []
    for optimizer, (rate, batch) in product(("lamb", "adamw"), (("1e-3", "4"), ("1e-4", "4"), ("1e-3", "8"))):
        name = f"{optimizer}-{rate}-{batch}"
        job: dict[str, object] = {
            "name": name,
            "recipe": "bert_pretrain",
            "nodes": 1,
            "processes_per_node": 1,
            "settings": settings_of(name),
        }
        modes = [
            {"technique": "data", "type": kind, "devices": devices, "seconds": seconds}
            for kind, devices, seconds in modes_of(name, batch)
        ]
        listed.append({"name": name, "job": job, "modes": modes})
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"pools": POOLS, "jobs": listed}))
    return path


def test_a_plan_runs_on_two_clusters_though_a_machine_and_its_runner_are_killed_and_a_job_is_cancelled(
    clusters: Shell, jobs: Path
) -> None:
    plan = jobs.with_name("plan.json")
    clusters.must("slipway", "plan", str(jobs), "--time-limit", "2", "--output", str(plan))
    page = jobs.with_name("plan.html")
    run = ("slipway", "run-plan", str(plan), "--switch-seconds", "30", "--html", str(page), "--json")
    with started(clusters, *run) as killed:
        lines = said(killed)
        first = next(line for line in lines if line.startswith(f"{DOOMED} goes to c6i as ")).split()[-1]
        (host,) = clusters.data("slipway", "status", "--on", "c6i", "--nodes", "--json")
        clusters.follow_until(first, "saved step 20")
        clusters.must("slipway", "yard", "kill-node", host["name"])
        again = next(line for line in lines if f"{DOOMED} was lost" in line and "planned again" in line)
        killed.send_signal(signal.SIGKILL)
    running = {
        each["name"].rpartition("-")[0]: each["id"] for each in clusters.data("slipway", "status", "--json")
    }
    withdrawn = next(name for name in running if name in names_in(plan) and name != DOOMED)
    clusters.must("slipway", "cancel", running[withdrawn])
    done = clusters.run(*run, timeout_s=600)
    assert again.startswith("planned again, since")
    assert f"error: not every job succeeded: {withdrawn}\n" in done.text, done.text
    found = json.loads(done.text[done.text.index("[\n") : done.text.rindex("]") + 1])
    rows = {row["job"]: row for row in found}
    assert {name: row["ended"] for name, row in rows.items() if row["ended"] != "succeeded"} == {
        withdrawn: "withdrawn"
    }
    assert {row["cluster"] for row in found} == {"dl1", "c6i"}
    assert "What ran" in page.read_text(encoding="utf-8")
    journal = plan.with_name("plan.json.journal").read_text().splitlines()
    assert sum('"intent"' in line for line in journal) == sum(row["attempts"] for row in found)
    assert rows[DOOMED]["attempts"] == 2
    assert "resuming from step" in clusters.must("slipway", "logs", rows[DOOMED]["run"])
    alone = last_loss(clusters, submit_alone(clusters, "c6i", DOOMED))
    assert last_loss(clusters, rows[DOOMED]["run"]) == pytest.approx(alone, rel=1e-3)


def names_in(plan: Path) -> set[str]:
    return {job["name"] for job in json.loads(plan.read_text())["jobs"]}


def said(process: subprocess.Popen[str]) -> Iterator[str]:
    """Yield what a command tells on stderr, line by line."""
    assert process.stderr is not None
    return iter(process.stderr)


@contextmanager
def started(shell: Shell, *command: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command, and let it not outlive the block."""
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


def submit_alone(shell: Shell, cluster: str, name: str) -> str:
    words = [word for key, value in settings_of(name).items() for word in ("--set", f"{key}={value}")]
    on = ("--on", cluster, "--nodes", "1", "--processes-per-node", "1", "--name", f"alone-{name}")
    shell.must("slipway", "submit", "bert_pretrain", *on, *words, "--follow")
    found: str = shell.data("slipway", "status", f"alone-{name}", "--json")["id"]
    return found


def last_loss(shell: Shell, job: str) -> float:
    loss: float = shell.data("slipway", "curve", job, "--json")[-1]["loss"]
    return loss


def test_tasks_of_a_users_own_folder_are_tried_and_trained_on_clusters_and_come_back(
    clusters: Shell, tmp_path: Path
) -> None:
    shutil.copytree(OWN_TASKS, tmp_path / "project")
    sweep = subprocess.run(
        [sys.executable, "sweep.py"],
        cwd=tmp_path / "project",
        env={**clusters.environment, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    print(sweep.stdout, sweep.stderr)
    assert sweep.returncode == 0, sweep.stderr
    told = json.loads(sweep.stdout)
    print(told)
    assert set(told["trained"]) == {"fast", "slow"}
    assert set(told["trained"].values()) <= {"dl1", "c6i"}
    assert told["sources"] == {"c6i": "measured", "dl1": "measured"}
    assert told["differences"] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert told["again"] == 0
    assert told["not_fitting"] == {"data on 1 of c6i": "ValueError: this model was never meant to be"}
