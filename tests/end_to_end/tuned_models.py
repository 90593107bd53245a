"""Tunings of tiny models by TRL on clusters of the yard: they lose a node, resume, and go on as before."""

from __future__ import annotations

import re
from pathlib import Path

from tests.containers.forks import run_module
from tests.end_to_end.conftest import Shell

STEPS = 120
TUNING = "sft"
SETTINGS = {
    "length": "64",
    "steps": str(STEPS),
    "global_batch": "8",
    "micro_batch": "2",
    "rate": "1e-3",
    "precision": "fp32",
    "checkpoint_every": "10",
    "log_every": "1",
}


def submit_tuning(shell: Shell, cluster: str, model: str, folder: Path) -> None:
    """Upload a tiny model and chats, and submit a tuning of two nodes on them."""
    made = run_module("tests.containers.recipes.sft.tiny", folder)
    assert made.returncode == 0, made.stderr
    for name in (model, "chats"):
        shell.must("slipway", "cluster", "upload", str(folder / name), "--on", cluster)
    bucket = shell.data("slipway", "cluster", "targets", cluster, "--json")["bucket"]
    inputs = {"model": f"s3://{bucket}/datasets/{model}", "data": f"s3://{bucket}/datasets/chats"}
    settings = [word for pair in {**SETTINGS, **inputs}.items() for word in ("--set", "=".join(pair))]
    on = ("--on", cluster, "--nodes", "2", "--processes-per-node", "1", "--attempts", "2")
    shell.must("slipway", "submit", "sft", *on, "--timeout-hours", "1", *settings)


def check_resumed(log: str) -> None:
    """See that the training resumed and ended, and that what was trained twice had the same losses."""
    assert re.search(r"resuming from step \d+", log), log
    losses: dict[int, list[str]] = {}
    for step, loss in re.findall(rf"step (\d+)/{STEPS}  loss (\d+\.\d+)", log):
        losses.setdefault(int(step), []).append(loss)
    assert list(losses) == list(range(1, STEPS + 1))
    assert {step for step, said in losses.items() if len(set(said)) > 1} == set()
    assert float(losses[STEPS][-1]) < float(losses[1][0]) - 0.5
    assert "the model is in" in log
