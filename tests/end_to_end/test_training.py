"""A training on the deployed cluster loses a node, resumes and succeeds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.conftest import ROOT, Shell
from tests.end_to_end.in_process import deployed
from tests.end_to_end.own_function import call_functions, run_the_example_of_the_page
from tests.end_to_end.own_project import STEPS, begin_project, refuse_another_curve
from tests.end_to_end.under_accelerate import refuse_ranks_that_train_alone_unsaid
from tests.packages import require
from tests.readme_session import never_printed, shown_after

require("deepspeed", reason="the extra 'deepspeed' is not installed")

# The folders of docs/examples run as jobs: each loses a node, and resumes from what it saved.
FOLDER = ROOT / "docs" / "examples"
# Packages that no other test needs: scripts/set_up_apart.
BESIDE = ROOT / ".venv" / "examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Say how long a folder trains in a test, and which line it prints after it has saved."""

    name: str
    steps: int
    saved: str
    begins: tuple[str, ...] = ("python",)  # the program that starts its train.py
    # One rank on each node, where a job would start one for each device of a dl1.
    options: tuple[str, ...] = ("--processes-per-node", "1")

    def run(self, shell: Shell, *options: str) -> None:
        """Run it with the command of its page."""
        words = ("env", f"STEPS={self.steps}", *self.begins, "train.py")
        options = (*options, *self.options)
        shell.must("slipway", "run", "--folder", str(FOLDER / self.name), *options, "--", *words)


# Long enough that a node is lost before the end.
DDP = Example(name="ddp", steps=4000, saved="step 50/4000")
TRAINER = Example(
    name="trainer", steps=1000, saved="'epoch': '0.4688'"
)  # step 30 of two ranks; step 20 is saved
LLAMA = Example(
    name="pretrain_llama",
    steps=100,
    saved="saved step 20",
    begins=("torchrun", "--nproc-per-node", "1"),
    options=("--per-node",),
)
FABRIC = Example(name="fabric", steps=4000, saved="step 50/4000")


def require_fabric() -> tuple[str, str]:
    """Return the option with which a job finds Lightning, for which its page sends wheels."""
    if not (BESIDE / "lock.txt").exists():
        pytest.skip("needs Lightning: scripts/set_up_apart")
    (packages,) = BESIDE.glob("lib/python*/site-packages")
    return "--env", f"PYTHONPATH={packages}"


def refuse_an_end_without_resuming(shell: Shell, example: Example, *options: str) -> None:
    """Run an example, kill one of its nodes, and check that two attempts end with one curve."""
    example.run(shell, *options)
    shell.follow_until(example.name, example.saved)
    shell.must("slipway", "yard", "kill-node", example.name, "1")
    log = shell.must("slipway", "logs", example.name, "--follow")
    assert "resuming from step" in log
    assert shell.data("slipway", "status", example.name, "--json")["state"] == "succeeded", log
    curve = shell.data("slipway", "report", "curve", example.name, "--json")
    assert (curve[0]["attempt"], curve[-1]["attempt"]) == (1, 2)
    assert (curve[0]["step"], curve[-1]["step"]) == (10, example.steps)
    assert curve[-1]["loss"] < curve[0]["loss"]


pytestmark = [pytest.mark.cdk, pytest.mark.slow]

PAGE = "docs/roads/dl1.md"
ON = ("--on", "dl1", "--nodes", "2")
NODES = (*ON, "--processes-per-node", "1")
SAMPLE = ("--set", "sample_megabytes=1", "--set", "duplicates=2")
OWN_TRAINING = Path(__file__).parent / "apps" / "own_training.py"
AFTER_DATA = ("--depends-on", "prepare_bert")
PLANNED = """
[[pools]]
cluster = "dl1"
nodes = 2

[[jobs]]
name = "planned"
command = ["python", "train.py"]
per_node = true
modes = [{ nodes = 2, seconds = 60 }]
"""
TRAINING = {
    "size": "tiny",
    "precision": "fp32",
    "zero": "1",
    "micro_batch": "8",
    "accumulation_steps": "1",
    "steps": "120",
    "checkpoint_every": "10",
    "log_every": "10",
}


@pytest.fixture(scope="module")
def cluster(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with deployed(shell, tmp_path_factory.mktemp("assembly"), "dl1"):
        shell.must("slipway", "image", "build", "gaudi")
        shell.must("slipway", "submit", "prepare_bert", *NODES, *SAMPLE)
        yield shell


@pytest.mark.long  # README's session loses a node each day, and bert_pretrain's tests resume it to the bit
def test_a_job_that_loses_a_node_goes_on_from_its_last_checkpoint_as_its_page_shows(cluster: Shell) -> None:
    settings = [part for name, value in TRAINING.items() for part in ("--set", f"{name}={value}")]
    submitted = cluster.must("slipway", "submit", "bert_pretrain", *NODES, *settings, *AFTER_DATA)
    cluster.follow_until("bert_pretrain", "saved step 20")
    killed = cluster.must("slipway", "yard", "kill-node", "bert_pretrain", "1")
    log = cluster.must("slipway", "logs", "bert_pretrain", "--follow")
    assert never_printed(shown_after("slipway submit bert_pretrain", PAGE), submitted) == []
    assert never_printed(shown_after("slipway yard kill-node", PAGE), killed) == []
    assert never_printed(shown_after("slipway logs", PAGE), log) == []
    assert "lost node 1" in log
    assert "resuming from step" in log
    run = cluster.data("slipway", "status", "bert_pretrain", "--json")
    assert run["state"] == "succeeded"
    data = cluster.data("slipway", "status", "prepare_bert", "--json")
    assert run["depends_on"] == [data["id"]]
    assert data["stopped_at"] <= run["started_at"]
    curve = cluster.data("slipway", "report", "curve", "bert_pretrain", "--json")
    assert [point["step"] for point in curve] == list(range(10, 121, 10))
    assert [point["attempt"] for point in curve] == sorted(point["attempt"] for point in curve)
    assert (curve[0]["attempt"], curve[-1]["attempt"]) == (1, 2)
    assert curve[-1]["loss"] < curve[0]["loss"]


@pytest.mark.long  # torch and more is loaded four times
@pytest.mark.parametrize("example", [DDP, TRAINER, LLAMA], ids=lambda each: each.name)
def test_an_example_that_loses_a_node_goes_on_from_what_it_saved(cluster: Shell, example: Example) -> None:
    pytest.importorskip("accelerate", reason="the extra 'compare' is not installed")
    refuse_an_end_without_resuming(cluster, example, *ON)


@pytest.mark.apart
def test_the_example_of_lightning_that_loses_a_node_goes_on_from_what_it_saved(cluster: Shell) -> None:
    refuse_an_end_without_resuming(cluster, FABRIC, *ON, *require_fabric())


@pytest.mark.long
def test_a_recipe_of_a_project_that_loses_a_node_resumes_and_ends_with_the_same_losses(
    cluster: Shell, tmp_path: Path
) -> None:
    project = begin_project(cluster, tmp_path / "mine")
    project.must("slipway", "submit", "slow", *NODES, "--set", f"steps={STEPS}")
    project.follow_until("slow", "saved step 20")
    project.must("slipway", "yard", "kill-node", "slow", "1")
    log = project.must("slipway", "logs", "slow", "--follow")
    assert "lost node 1" in log
    refuse_another_curve(log, project.folder)
    run = project.data("slipway", "status", "slow", "--json")
    assert (run["state"], len(run["attempts"])) == ("succeeded", 2)


@pytest.mark.long  # tests/containers/runtime/launch hold what is decided
def test_ranks_join_under_accelerate_and_who_trains_alone_is_told(cluster: Shell, tmp_path: Path) -> None:
    refuse_ranks_that_train_alone_unsaid(cluster, "dl1", tmp_path)


@pytest.mark.long  # tests/jobs/submit/test_functions.py does so without AWS Batch
def test_a_function_of_ones_own_returns_and_raises_on_two_nodes(cluster: Shell, tmp_path: Path) -> None:
    call_functions(cluster, "dl1", tmp_path)
    run_the_example_of_the_page(cluster, tmp_path)


def test_a_plan_sends_and_runs_a_users_own_command(cluster: Shell, tmp_path: Path) -> None:
    shutil.copy(OWN_TRAINING, tmp_path / "train.py")
    sweep, plan = tmp_path / "sweep.toml", str(tmp_path / "plan.json")
    sweep.write_text(PLANNED, encoding="utf-8")
    cluster.must("slipway", "plan", "make", str(sweep), "--output", plan)
    (tmp_path / "train.py").write_text("raise SystemExit('changed since it was planned')\n")
    (row,) = cluster.data("slipway", "plan", "run", plan, "--json")
    assert (row["job"], row["ended"], row["cluster"]) == ("planned", "succeeded", "dl1")
    log = cluster.must("slipway", "logs", "planned")
    for rank in range(2):
        assert f"[{rank}] rank {rank} of 2: loss " in log


def test_the_same_submission_again_is_the_same_job(cluster: Shell) -> None:
    settings = ("--set", "size=tiny", "--set", "steps=1", "--set", "precision=fp32")
    first = cluster.data("slipway", "submit", "bert_pretrain", *NODES, *settings, "--json")
    again = cluster.data("slipway", "submit", "bert_pretrain", *NODES, *settings, "--json")
    assert first["id"] == again["id"]
    cluster.must("slipway", "cancel", first["name"])
    cluster.run("slipway", "logs", first["name"], "--follow")  # until it has ended


def test_a_wrong_setting_is_refused_before_a_node_is_paid_for(cluster: Shell) -> None:
    done = cluster.run("slipway", "submit", "bert_pretrain", *NODES, "--set", "zero=4", "--set", "stepz=3")
    assert done.status == 2
    assert "zero is '4'" in done.text
    assert "did you mean steps?" in done.text
    assert "Traceback" not in done.text
