"""A tiny Llama on the cluster of docs/sft.md loses a node of AWS Batch and resumes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.jobs.words.installation import DECLARATIONS
from tests.containers.forks import run_module
from tests.end_to_end.conftest import Shell
from tests.end_to_end.own_project import begin_project
from tests.packages import require
from tests.test_docs import page

require("trl", reason="the extra 'sft' is not installed")
# the daily run resumes one in tests/containers/recipes/sft
pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]

NAME = "tuning"
DECLARED = re.compile(r"^```python\n(.*?^CLUSTERS = .*?)^```$", re.MULTILINE | re.DOTALL)
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
    """Check that the training resumed and ended, and that repeated steps had the same losses."""
    assert re.search(r"resuming from step \d+", log), log
    losses: dict[int, list[str]] = {}
    for step, loss in re.findall(rf"step (\d+)/{STEPS}  loss (\d+\.\d+)", log):
        losses.setdefault(int(step), []).append(loss)
    assert list(losses) == list(range(1, STEPS + 1))
    assert {step for step, said in losses.items() if len(set(said)) > 1} == set()
    assert float(losses[STEPS][-1]) < float(losses[1][0]) - 0.5
    assert "the model is in" in log


@pytest.fixture(scope="module")
def project(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    project = begin_project(shell, tmp_path_factory.mktemp(NAME) / "mine")
    (text,) = DECLARED.findall(page("docs/sft.md"))
    disposable = text.replace("max_nodes=2,", "max_nodes=2,\n        keep_data=False,")
    (project.folder / DECLARATIONS).write_text(f"{disposable}\nMACHINE_IMAGES = ()\n", encoding="utf-8")
    project.must("cdk", "deploy", NAME, "--require-approval", "never", "--concurrency", "4")
    project.must("slipway", "image", "build", "gpu")
    yield project
    project.must("slipway", "cluster", "empty", NAME, "--yes")
    project.must("cdk", "destroy", f"{NAME}*", "--force")


def test_a_tuned_llama_loses_a_node_and_resumes_with_the_same_losses(project: Shell, tmp_path: Path) -> None:
    submit_tuning(project, NAME, "llama", tmp_path)
    project.follow_until(TUNING, "saved step 10")
    project.must("slipway", "yard", "kill-node", TUNING, "1")
    check_resumed(project.must("slipway", "logs", TUNING, "--follow"))
    run = project.data("slipway", "status", TUNING, "--json")
    assert (run["state"], len(run["attempts"])) == ("succeeded", 2)
