"""Jobs on the deployed c6i run on real hosts with a real mpirun over ssh, and leave nothing running."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slipway.yard.machines.isolation.tiers import best_tier
from tests.end_to_end.conftest import Shell
from tests.end_to_end.in_process import deployed
from tests.end_to_end.own_function import call_functions
from tests.end_to_end.own_project import TRAIN_SLOWLY, begin_project, refuse_another_curve
from tests.end_to_end.roads import PlayedRoad, split_at
from tests.end_to_end.under_accelerate import refuse_ranks_that_train_alone_unsaid
from tests.packages import require

require("deepspeed", reason="the extra 'deepspeed' is not installed")
pytestmark = [pytest.mark.cdk, pytest.mark.slow]

NODES = 2
ON = ("--on", "c6i", "--nodes", str(NODES))
SAMPLE = ("--set", "sample_megabytes=1", "--set", "duplicates=1")
TRAINING = {
    "size": "tiny",
    "precision": "fp32",
    "micro_batch": "8",
    "steps": "100000",  # it never ends by itself
    "checkpoint_every": "10",
    "log_every": "10",
}
SMALL = {
    "prepare_bert": "--set duplicates=1 --set output=chain",
    "bert_pretrain": "--set dataset=chain --set steps=10 --set precision=fp32 --set micro_batch=8",
    "glue_finetune": "--set epochs=1",
}
# It compares DistributedDataParallel's averaged gradients with those of one process.
PUBLIC_SCRIPT = "accelerate.test_utils.scripts.test_sync"
OWN_RUN = ("--processes-per-node", "1", "--attempts", "2", "--timeout-hours", "1", "--name", "own")
CHAIN = ("corpus", "rows", "bert", "tuned")
ENDED_WITHIN_SECONDS = 30.0  # promised of a job that loses a host


@pytest.fixture(scope="module")
def cluster(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    if not best_tier().isolated:
        pytest.skip("this machine can make no namespaces, so its hosts cannot die one by one")
    with deployed(shell, tmp_path_factory.mktemp("assembly"), "c6i", max_nodes=str(NODES)):
        yield shell


@pytest.fixture(scope="module")
def prepared(cluster: Shell) -> str:
    """Prepare the rows that jobs here train on; return what the job said."""
    return cluster.must("slipway", "submit", "prepare_bert", *ON, *SAMPLE, "--follow")


def settings(**changes: str) -> list[str]:
    return [word for pair in (TRAINING | changes).items() for word in ("--set", "=".join(pair))]


def hosts(shell: Shell) -> list[str]:
    return [each["name"] for each in shell.data("slipway", "status", "--on", "c6i", "--nodes", "--json")]


def running(shell: Shell) -> list[str]:
    """Return the jobs of which each host has processes, as the host says."""
    ask = ("--", sys.executable, "-m", "slipway.jobs.platforms.mpi.node.main", "facts", "open-mpi")
    told = [shell.must("slipway", "yard", "ssh", host, *ask) for host in hosts(shell)]
    return [json.loads(each)["running"] for each in told]


def refuse_a_closed_node(shell: Shell, job: str, folder: Path) -> None:
    """Check that sessions and ssh reach each node of a running job, and its user's processes."""
    names = hosts(shell)
    for node in range(NODES):
        assert names[node] in shell.must("slipway", "ssh", job, str(node), "--", "hostname", "-s")
    if os.geteuid():
        return  # without root a host has one user, and accepts no other user's key
    key, config = folder / "key", folder / "config"
    shell.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    printed = shell.must("slipway", "ssh", job, "--config", "--key", f"{key}.pub")
    config.write_text(f"{printed}\nHost *\n  UserKnownHostsFile {folder}/known_hosts\n", encoding="utf-8")
    for node in range(NODES):
        asked = shell.must(
            "ssh", "-F", str(config), f"slipway-{job}-{node}", "hostname -s; pgrep -c -u slipway"
        )
        assert names[node] in asked


@pytest.mark.long
def test_fine_tuning_on_more_hosts_is_compared_with_one(cluster: Shell, tmp_path: Path) -> None:
    places = {}
    for kind, name in (("task", "mrpc"), ("model", "distilbert")):
        made = str(tmp_path / name)
        cluster.must(
            sys.executable,
            "-m",
            "slipway.containers.data.samples",
            f"--{kind}",
            name,
            "--output",
            made,
        )
        places[kind] = cluster.data("slipway", "cluster", "upload", made, "--on", "c6i", "--json")["address"]
    told = ("--set", f"data={places['task']}", "--set", f"model={places['model']}", "--set", "epochs=1")
    for nodes in (1, NODES):
        on = ("--on", "c6i", "--nodes", str(nodes))
        log = cluster.must("slipway", "submit", "glue_finetune", *on, *told, "--follow")
        assert "accuracy 0." in log
    compared = cluster.data("slipway", "report", "speedup", "glue_finetune", "--on", "c6i", "--json")
    assert [line["nodes"] for line in compared] == [1, NODES]
    assert compared[0]["speedup"] == 1.0
    assert compared[1]["speedup"] > 0
    assert 1 < compared[1]["estimated"] < NODES


def made_small(command: str) -> str:
    """Return a command of the page with the nodes that there are, and few rows, steps and epochs."""
    told = next((f" {small}" for recipe, small in SMALL.items() if recipe in command), "")
    return command.replace("--nodes 4", f"--nodes {NODES}") + told


@pytest.mark.long
def test_a_dump_becomes_a_fine_tuned_model_by_jobs_that_wait_for_each_other_as_the_page_shows(
    cluster: Shell, tmp_path: Path
) -> None:
    road = PlayedRoad.at("c6i", cluster, tmp_path, bakes=False)
    commands, follow = split_at(road.commands("A chain of jobs"), "slipway logs")
    road.play(map(made_small, commands))
    waiting = cluster.data("slipway", "status", "tuned", "--json")
    assert (waiting["state"], waiting["cost"]["usd"]) == ("waiting", 0.0)
    assert waiting["name"] in cluster.must("slipway", "explain", "tuned")
    cluster.run("slipway", "logs", "tuned", "--follow")
    runs = [cluster.data("slipway", "status", job, "--json") for job in CHAIN]
    for job, run in zip(CHAIN, runs, strict=True):
        assert run["state"] == "succeeded", cluster.run("slipway", "logs", job).text
    road.play(follow)
    for before, after in itertools.pairwise(runs):
        assert after["depends_on"] == [before["id"]]
        assert before["stopped_at"][:19] <= after["started_at"][:19]
    assert "accuracy 0." in cluster.must("slipway", "logs", "tuned")


@pytest.mark.long  # runtime/launch/test_nodes.py loses a node each day
@pytest.mark.usefixtures("prepared")
def test_a_host_that_dies_ends_the_job_everywhere_with_its_name(cluster: Shell) -> None:
    cluster.must("slipway", "submit", "bert_pretrain", *ON, *settings(seed="1"), "--name", "dies")
    cluster.follow_until("dies", "saved step 10")
    dying = hosts(cluster)[-1]
    killed_at = datetime.now(UTC)
    cluster.must("slipway", "yard", "kill-node", dying)
    followed = cluster.run("slipway", "logs", "dies", "--follow")
    run = cluster.data("slipway", "status", "dies", "--json")
    stopped_at = datetime.fromisoformat(run["stopped_at"])
    assert followed.status == 1
    assert (run["state"], run["exit_code"]) == ("failed", 85)
    assert f"host {dying} was lost" in cluster.must("slipway", "explain", "dies")
    assert (stopped_at - killed_at).total_seconds() < ENDED_WITHIN_SECONDS


@pytest.mark.long
@pytest.mark.usefixtures("prepared")
def test_a_job_that_is_cancelled_saves_first_and_leaves_nothing_behind(
    cluster: Shell, tmp_path: Path
) -> None:
    cluster.must("slipway", "submit", "bert_pretrain", *ON, *settings(seed="2"), "--name", "cancelled")
    cluster.follow_until("cancelled", "saved step 10")
    assert len(hosts(cluster)) == NODES
    other = cluster.run("slipway", "submit", "prepare_bert", *ON, "--set", "sample_megabytes=2")
    assert other.status == 1
    assert "runs cancelled-" in other.text
    assert all("cancelled-" in jobs for jobs in running(cluster))
    refuse_a_closed_node(cluster, "cancelled", tmp_path)
    cluster.must("slipway", "cancel", "cancelled")
    assert cluster.run("slipway", "logs", "cancelled", "--follow").status == 1
    run = cluster.data("slipway", "status", "cancelled", "--json")
    assert (run["state"], run["status"]) == ("failed", "Cancelled")
    assert running(cluster) == [""] * NODES


@pytest.mark.long
def test_the_script_of_a_project_that_loses_a_host_resumes_and_ends_with_the_same_losses(
    cluster: Shell, tmp_path: Path
) -> None:
    project = begin_project(cluster, tmp_path / "mine")
    project.must("slipway", "run", *ON, *OWN_RUN, "--name", "mine", "--", *TRAIN_SLOWLY)
    project.follow_until("mine", "saved step 20")
    project.must("slipway", "yard", "kill-node", "mine", "1")
    log = project.must("slipway", "logs", "mine", "--follow")
    assert project.data("slipway", "status", "mine", "--json")["state"] == "succeeded"
    refuse_another_curve(log, project.folder)


@pytest.mark.long
def test_a_public_script_of_torch_distributed_passes_unmodified_on_every_host(
    cluster: Shell, tmp_path: Path
) -> None:
    pytest.importorskip("accelerate", reason="the extra 'compare' is not installed")
    shutil.copy(Path(__file__).parent / "apps" / "as_a_rank.py", tmp_path)
    sent = ("--folder", str(tmp_path), "--name", "public", "--per-node", "--follow")
    log = cluster.must("slipway", "run", *ON, *sent, "--", "torchrun", "as_a_rank.py", PUBLIC_SCRIPT)
    for rank in range(NODES):
        assert f"[{rank}] **Test `accumulate` gradient accumulation" in log


@pytest.mark.long  # tests/containers/runtime/launch hold what is decided
def test_ranks_join_under_accelerate_and_who_trains_alone_is_told(cluster: Shell, tmp_path: Path) -> None:
    refuse_ranks_that_train_alone_unsaid(cluster, "c6i", tmp_path)


@pytest.mark.long  # tests/jobs/submit/test_functions.py does so without a cluster
def test_a_function_of_ones_own_returns_and_raises_on_two_nodes(cluster: Shell, tmp_path: Path) -> None:
    call_functions(cluster, "c6i", tmp_path)
