"""The deployed trn1: the article's sbatch files on four nodes of a real Slurm, without the accelerators."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slipway.containers.runtime.contract import variables
from slipway.jobs.words import slurm as places
from slipway.yard.machines.hosts import boot_ways
from slipway.yard.services.pcs import differences
from tests.end_to_end.conftest import Shell
from tests.end_to_end.own_project import TRAIN_MORE_SLOWLY, begin_project, refuse_another_curve
from tests.end_to_end.small_project import begin_small_project
from tests.end_to_end.under_accelerate import refuse_ranks_that_train_alone_unsaid
from tests.jobs.platforms.slurm.one_slurm import start_requeued

pytest.importorskip("torch", reason="the extra 'training' is not installed")
# yard/services/pcs/test_slurm.py and jobs/platforms/slurm/node hold its promises one by one each day.
pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]

NODES = 4
PATIENCE_SECONDS = 600.0
LOOK_AGAIN_SECONDS = 2.0  # each look enters the host
FOLDER = f"{places.SHARED}/trial"
MODEL = "./neox_tiny.sh"
# A short training that saves often, of neox_tiny.sh and of a submission that sets what this sets.
SHORT = {"data": "random", "tokens": str(24 * 16 * 64), "checkpoint_every": "6"}
TINY = {"size": "tiny", "tensor": "2", "pipeline": "2"}
ALONE = {"tensor": "1", "pipeline": "1"}  # one process
WAITS = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED")
STAND_IN = "/etc/slipway/stand-in"  # where a yard's processors stand in for accelerators
CHARTS = "events.out.tfevents.*"  # as TensorBoard looks for them
ROUNDING = 2e-3  # of a loss, as it is printed
STEP = re.compile(r"step (\d+)\b.*?\bloss (\d+\.\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginNode:
    """Types on the login node."""

    yard: Shell
    name: str

    def types(self, line: str) -> str:
        inside = f"cd {FOLDER} && {line}"
        return self.yard.must("slipway", "yard", "ssh", self.name, "--", "bash", "-c", inside).strip()

    def sbatch(self, *words: str) -> str:
        return self.types(" ".join(("sbatch", "--parsable", *words))).splitlines()[-1]

    def scripted(
        self, script: str, *options: str, model: str = MODEL, nodes: int = NODES, **more: str
    ) -> str:
        settings = (f"{name}={value}" for name, value in {**SHORT, **more}.items())
        return self.sbatch(f"--nodes={nodes}", *options, script, model, *settings)

    def job(self, job: str) -> dict[str, str]:
        words = self.types(f"scontrol --oneliner show job {job}").split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def log(self, name: str) -> str:
        return self.types(f"cat {name} 2>/dev/null || true")

    def until(self, holds: Callable[[], Any], *told: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, "\n".join(self.log(name) for name in told)
            time.sleep(LOOK_AGAIN_SECONDS)

    def node(self, name: str) -> str:
        return self.types(f"scontrol --oneliner show node {name}")

    def ends_well(self, job: str, log: str) -> None:
        self.until(lambda: self._has_ended(job), log)
        assert self.job(job)["JobState"] == "COMPLETED", self.log(log)

    def _has_ended(self, job: str) -> bool:
        """Look, and let a requeued job start before the two minutes are over for which Slurm holds it."""
        found = self.job(job)
        if found["Reason"] == "BeginTime":
            start_requeued(lambda *words: self.types(f"{shlex.join(words)} || true"), job)
        return found["JobState"] not in WAITS

    def charts(self, job: str) -> list[str]:
        """Return the files of a job that TensorBoard shows, those in which it finds a loss."""
        found = f"find {places.SHARED} -path '*/{job}/*' -name '{CHARTS}' -exec grep -la loss {{}} +"
        return sorted(self.types(found).splitlines())

    def losses(self, log: str) -> dict[int, float]:
        return {int(step): float(loss) for step, loss in STEP.findall(self.log(log))}


@pytest.fixture(scope="module")
def slurm(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginNode]:
    if why := differences.obstacle() or boot_ways.obstacle_here():
        pytest.skip(f"no Slurm of the yard runs here: {why}")
    assembly = str(tmp_path_factory.mktemp("assembly"))
    declared = ("-c", "trn1.keep_data=false", "-c", f"trn1.max_nodes={NODES}", "--output", assembly)
    project = begin_small_project(shell, tmp_path_factory.mktemp("project"), "trn1")
    project.must("cdk", "deploy", "trn1", "--require-approval", "never", "--concurrency", "4", *declared)
    group = shell.data("slipway", "cluster", "targets", "trn1", "--json")["login_group"]
    yield LoginNode(yard=shell, name=login_node(shell, group))
    shell.must("slipway", "cluster", "empty", "trn1", "--yes")
    shell.must("cdk", "destroy", "trn1*", "--force", "--app", assembly)


def login_node(shell: Shell, group: str) -> str:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for host in shell.data("slipway", "yard", "hosts", "--json"):
            if host["group"] == group and host["state"] in ("running", "failed"):
                name = str(host["name"])
                made = f"mkdir -p {FOLDER} && cp {places.SCRIPTS}/* {FOLDER}"
                shell.must("slipway", "yard", "ssh", name, "--", "bash", "-c", made)
                return name
    pytest.fail("the login node never booted")


@pytest.fixture(scope="module")
def losses_by_hand(slurm: LoginNode) -> dict[int, float]:
    """Train two copies as a person does on the login node, and return what each step of it told."""
    two_copies = f"--export=ALL,{variables.PROCESSES_PER_NODE}=2"
    compiled = slurm.scripted("compile.slurm", two_copies)
    trained = slurm.scripted("run.slurm", f"--dependency=afterok:{compiled}", two_copies)
    slurm.ends_well(compiled, f"compile-{compiled}.log")
    slurm.ends_well(trained, f"run-{trained}.log")
    assert "4 hosts, 2 ranks each" in slurm.log(f"run-{trained}.log")
    return slurm.losses(f"run-{trained}.log")


def test_compile_slurm_and_then_run_slurm_train_on_four_nodes(
    slurm: LoginNode, losses_by_hand: dict[int, float]
) -> None:
    assert losses_by_hand[max(losses_by_hand)] < losses_by_hand[min(losses_by_hand)]
    assert slurm.charts("neox_tiny"), "TensorBoard finds nothing"


def test_tensor_pipeline_and_data_parallel_ranks_on_four_nodes_have_the_losses_of_one_process(
    slurm: LoginNode, losses_by_hand: dict[int, float]
) -> None:
    slurm.types(f"cp {MODEL} ./alone.sh")  # another name: checkpoints of its own
    alone = slurm.scripted("run.slurm", model="./alone.sh", nodes=1, **ALONE)
    slurm.ends_well(alone, f"run-{alone}.log")
    assert slurm.losses(f"run-{alone}.log") == pytest.approx(losses_by_hand, abs=ROUNDING)


def test_a_submitted_job_that_loses_a_node_resumes_and_reaches_the_same_loss(
    slurm: LoginNode, losses_by_hand: dict[int, float]
) -> None:
    words = [word for pair in {**TINY, **SHORT}.items() for word in ("--set", "=".join(pair))]
    on = ("--on", "trn1", "--nodes", str(NODES), "--processes-per-node", "1")
    slurm.yard.must("slipway", "submit", "gpt_neox", *on, *words, "--name", "neox")
    run = slurm.yard.data("slipway", "status", "neox", "--json")
    job, log = str(run["id"]), f"{places.JOBS}/{run['name']}/run-{run['id']}.log"
    slurm.until(lambda: "saved step" in slurm.log(log) or slurm.job(job)["JobState"] not in WAITS, log)
    assert slurm.job(job)["JobState"] in WAITS, slurm.log(f"{places.JOBS}/{run['name']}/*.log")
    slurm.yard.must("slipway", "yard", "kill-node", last_host(slurm, job))
    slurm.ends_well(job, log)
    found = slurm.losses(log)
    last = max(losses_by_hand)
    assert max(found) == last
    assert found[last] == pytest.approx(losses_by_hand[last], abs=ROUNDING)
    assert slurm.log(log).count("step 1/") == 1, "it began anew"
    ended = slurm.yard.data("slipway", "status", "neox", "--json")
    assert (ended["state"], slurm.job(job)["Restarts"]) == ("succeeded", "1")
    assert len(slurm.charts(run["name"])) == 2, "each attempt writes its own file"


def test_the_script_of_a_project_that_loses_a_node_resumes_and_ends_with_the_same_losses(
    slurm: LoginNode, tmp_path: Path
) -> None:
    project = begin_project(slurm.yard, tmp_path / "mine")
    on = ("--on", "trn1", "--nodes", "2", "--processes-per-node", "1", "--name", "mine")
    sent = project.data("slipway", "run", *on, "--json", "--", *TRAIN_MORE_SLOWLY)
    assert sent["source"]["address"].startswith("s3://")
    job, log = str(sent["id"]), f"{places.JOBS}/{sent['name']}/run-{sent['id']}.log"
    slurm.until(lambda: "saved step" in slurm.log(log) or slurm.job(job)["JobState"] not in WAITS, log)
    assert slurm.job(job)["JobState"] in WAITS, slurm.log(f"{places.JOBS}/{sent['name']}/*.log")
    slurm.yard.must("slipway", "yard", "kill-node", last_host(slurm, job))
    slurm.ends_well(job, log)
    refuse_another_curve(slurm.log(log), project.folder)
    ended = project.data("slipway", "status", "mine", "--json")
    assert (ended["state"], slurm.job(job)["Restarts"]) == ("succeeded", "1")


def test_ranks_join_under_accelerate_and_who_trains_alone_is_told(slurm: LoginNode, tmp_path: Path) -> None:
    refuse_ranks_that_train_alone_unsaid(slurm.yard, "trn1", tmp_path)


def last_host(slurm: LoginNode, job: str) -> str:
    last = slurm.types(f"scontrol show hostnames {slurm.job(job)['NodeList']}").split()[-1]
    address = re.search(r"NodeAddr=(\S+)", slurm.node(last))
    assert address
    return address[1]


def test_a_node_without_its_devices_drains_with_the_reason_and_its_job_runs_elsewhere(
    slurm: LoginNode,
) -> None:
    """Without the stand-in a yard's machine is what it is: a trn1 without a single device."""
    broke = slurm.sbatch("--nodes=1", "--output=broke-%j.log", "--wrap", f"'rm -f {STAND_IN}'")
    slurm.ends_well(broke, f"broke-{broke}.log")
    unfit = slurm.job(broke)["BatchHost"]
    try:
        job = slurm.sbatch("--nodes=1", "--output=elsewhere-%j.log", "--wrap", "hostname")
        slurm.ends_well(job, f"elsewhere-{job}.log")
        assert slurm.job(job)["BatchHost"] != unfit
        assert "+DRAIN" in slurm.node(unfit)
        assert "Reason=slipway: 0 of 16 neuron devices; 0 of 8 EFA devices" in slurm.node(unfit)
        nodes = slurm.yard.data("slipway", "status", "--on", "trn1", "--nodes", "--json")
        (row,) = [node for node in nodes if node["name"] == unfit]
        assert "0 of 16 neuron devices" in row["why"]
    finally:
        # Where an idle node is given back, its next machine is another one.
        slurm.types(f"scontrol update nodename={unfit} state=power_down")
