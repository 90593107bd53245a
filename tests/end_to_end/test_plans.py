"""A plan of small trainings runs on two unlike clusters, whatever happens to a job and to its runner."""

from __future__ import annotations

import json
import signal
import subprocess
from itertools import product
from pathlib import Path

import pytest

from slipway.yard.machines.isolation.tiers import best_tier
from tests.end_to_end.conftest import ROOT, Shell

pytest.importorskip("deepspeed", reason="the extra 'deepspeed' is not installed")
pytestmark = [pytest.mark.cdk, pytest.mark.slow]

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
        shell.must("slipway", "submit", "prepare_bert", "--on", cluster, "--nodes", "1", *SAMPLE, "--follow")
    return shell


def settings_of(optimizer: str, rate: str, batch: str) -> dict[str, str]:
    return {**SMALL, "optimizer": optimizer, "learning_rate": rate, "global_batch": batch}


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """Two optimizers, two rates and two batches; each may take one node or two of dl1, or c6i."""
    listed = []
    for optimizer, rate, batch in product(("lamb", "adamw"), ("1e-3", "1e-4"), ("4", "8")):
        name = f"{optimizer}-{rate}-{batch}"
        seconds = {"4": 20, "8": 26}[batch]
        modes = [
            ("dl1.24xlarge", 1, seconds),
            ("dl1.24xlarge", 2, seconds * 7 // 10),
            ("c6i.16xlarge", 1, seconds),
        ]
        listed.append(
            {
                "name": name,
                "job": {
                    "name": name,
                    "recipe": "bert_pretrain",
                    "nodes": 1,
                    "processes_per_node": 1,
                    "settings": settings_of(optimizer, rate, batch),
                },
                "modes": [
                    {"technique": "data", "type": kind, "devices": devices, "seconds": each}
                    for kind, devices, each in modes
                    if devices * 4 <= int(batch)
                ],
            }
        )
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"pools": POOLS, "jobs": listed}))
    return path


def test_a_plan_runs_on_two_clusters_though_its_runner_is_killed_and_a_job_is_cancelled(
    clusters: Shell, jobs: Path
) -> None:
    plan = jobs.with_name("plan.json")
    clusters.must("slipway", "plan", str(jobs), "--time-limit", "2", "--output", str(plan))
    page = jobs.with_name("plan.html")
    run = ("slipway", "run-plan", str(plan), "--switch-seconds", "30", "--html", str(page))
    killed = subprocess.Popen(
        run,
        cwd=ROOT,
        env=dict(clusters.environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert killed.stderr is not None
    for line in killed.stderr:
        if "succeeded" in line:  # others are on their way
            killed.send_signal(signal.SIGKILL)
            break
    killed.communicate()
    running = next(run for run in clusters.data("slipway", "status", "--json") if "-" in run["name"])
    withdrawn = "-".join(running["name"].split("-")[:-1])
    clusters.must("slipway", "cancel", running["id"])
    done = clusters.run(*run, "--json", timeout_s=600)
    assert f"error: not every job succeeded: {withdrawn}" in done.text, done.text
    rows = json.loads(done.text[done.text.index("[\n") : done.text.rindex("]") + 1])
    assert {row["job"]: row["ended"] for row in rows if row["ended"] != "succeeded"} == {
        withdrawn: "withdrawn"
    }
    assert {row["cluster"] for row in rows} == {"dl1", "c6i"}
    assert "What ran" in page.read_text(encoding="utf-8")
    sent = [
        line for line in plan.with_name("plan.json.journal").read_text().splitlines() if '"intent"' in line
    ]
    assert len(sent) == sum(row["attempts"] for row in rows)
    for row in [row for row in rows if row["ended"] == "succeeded"][::4]:
        alone = last_loss(clusters, submit_alone(clusters, row["cluster"], row["job"]))
        assert last_loss(clusters, row["run"]) == pytest.approx(alone, rel=1e-3), row["job"]


def submit_alone(shell: Shell, cluster: str, name: str) -> str:
    optimizer, *rate, batch = name.split("-")
    settings = settings_of(optimizer, "-".join(rate), batch)
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    on = ("--on", cluster, "--nodes", "1", "--processes-per-node", "1", "--name", f"alone-{name}")
    shell.must("slipway", "submit", "bert_pretrain", *on, *words, "--follow")
    found: str = shell.data("slipway", "status", f"alone-{name}", "--json")["id"]
    return found


def last_loss(shell: Shell, job: str) -> float:
    loss: float = shell.data("slipway", "curve", job, "--json")[-1]["loss"]
    return loss
