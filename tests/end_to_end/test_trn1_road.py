"""The article's sbatch files run on the deployed trn1: four nodes of a real Slurm without accelerators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.containers.runtime.contract import variables
from slipway.jobs.words import slurm as places
from slipway.yard.machines.hosts import boot_ways
from slipway.yard.services.pcs import differences
from tests.end_to_end.conftest import Shell
from tests.end_to_end.login_node import LoginNode, login_node
from tests.end_to_end.own_function import call_functions
from tests.end_to_end.own_project import TRAIN_MORE_SLOWLY, begin_project, refuse_another_curve
from tests.end_to_end.small_project import begin_small_project
from tests.end_to_end.under_accelerate import refuse_ranks_that_train_alone_unsaid

pytest.importorskip("torch", reason="the extra 'training' is not installed")
# The daily run tests its promises one by one in yard/services/pcs/test_slurm.py and
# jobs/platforms/slurm/node.
pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]

NODES = 4
MODEL = "./neox_tiny.sh"
# A short training that saves often, for neox_tiny.sh and for a submission with the same settings.
SHORT = {"data": "random", "tokens": str(24 * 16 * 64), "checkpoint_every": "6"}
TINY = {"size": "tiny", "tensor": "2", "pipeline": "2"}
ALONE = {"tensor": "1", "pipeline": "1"}  # one process
STAND_IN = "/etc/slipway/stand-in"  # in a yard, where processors stand in for accelerators
ROUNDING = 2e-3  # of a loss, as it is printed


def scripted(
    slurm: LoginNode, script: str, *options: str, work: tuple[int, str] = (NODES, MODEL), **more: str
) -> str:
    nodes, model = work
    settings = (f"{name}={value}" for name, value in {**SHORT, **more}.items())
    return slurm.sbatch(f"--nodes={nodes}", *options, script, model, *settings)


@pytest.fixture(scope="module")
def slurm(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginNode]:
    if why := differences.obstacle() or boot_ways.obstacle_here():
        pytest.skip(f"no Slurm of the yard runs here: {why}")
    assembly = str(tmp_path_factory.mktemp("assembly"))
    chosen = ("trn1.keep_data=false", f"trn1.max_nodes={NODES}", "trn1.market=spot")
    declared = (*(word for each in chosen for word in ("-c", each)), "--output", assembly)
    project = begin_small_project(shell, tmp_path_factory.mktemp("project"), "trn1")
    project.must("cdk", "deploy", "trn1", "--require-approval", "never", "--concurrency", "4", *declared)
    group = shell.data("slipway", "cluster", "targets", "trn1", "--json")["login_group"]
    yield LoginNode(yard=shell, name=login_node(shell, group))
    shell.must("slipway", "cluster", "empty", "trn1", "--yes")
    shell.must("cdk", "destroy", "trn1*", "--force", "--app", assembly)


@pytest.fixture(scope="module")
def losses_by_hand(slurm: LoginNode) -> dict[int, float]:
    """Train two copies as a user does on the login node, and return what each command printed."""
    two_copies = f"--export=ALL,{variables.PROCESSES_PER_NODE}=2"
    compiled = scripted(slurm, "compile.slurm", two_copies)
    trained = scripted(slurm, "run.slurm", f"--dependency=afterok:{compiled}", two_copies)
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
    slurm.types(f"cp {MODEL} ./alone.sh")  # another name, and so its own checkpoints
    alone = scripted(slurm, "run.slurm", work=(1, "./alone.sh"), **ALONE)
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
    slurm.trains(job, log)
    slurm.yard.must("slipway", "yard", "kill-node", slurm.last_host(job))
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
    slurm.trains(job, log)
    slurm.yard.must("slipway", "yard", "kill-node", slurm.last_host(job))
    slurm.ends_well(job, log)
    refuse_another_curve(slurm.log(log), project.folder)
    ended = project.data("slipway", "status", "mine", "--json")
    assert (ended["state"], slurm.job(job)["Restarts"]) == ("succeeded", "1")


def test_a_worker_that_spot_takes_back_lets_its_ranks_save_and_the_job_resumes(
    slurm: LoginNode, tmp_path: Path
) -> None:
    project = begin_project(slurm.yard, tmp_path / "spotted")
    on = ("--on", "trn1", "--nodes", "2", "--processes-per-node", "1", "--name", "spotted")
    sent = project.data("slipway", "run", *on, "--json", "--", *TRAIN_MORE_SLOWLY)
    job, log = str(sent["id"]), f"{places.JOBS}/{sent['name']}/run-{sent['id']}.log"
    slurm.trains(job, log)
    slurm.yard.must("slipway", "yard", "interrupt", slurm.last_host(job))
    slurm.ends_well(job, log)
    assert "EC2 reclaims this Spot instance" in slurm.log(log)
    refuse_another_curve(slurm.log(log), project.folder)
    assert int(slurm.job(job)["Restarts"]) >= 1


def test_ranks_join_under_accelerate_and_who_trains_alone_is_told(slurm: LoginNode, tmp_path: Path) -> None:
    refuse_ranks_that_train_alone_unsaid(slurm.yard, "trn1", tmp_path)


def test_a_function_of_ones_own_returns_and_raises_on_two_nodes(slurm: LoginNode, tmp_path: Path) -> None:
    call_functions(slurm.yard, "trn1", tmp_path)


def test_a_node_without_its_devices_is_given_back_with_the_reason_and_its_job_runs_elsewhere(
    slurm: LoginNode,
) -> None:
    """Without the stand-in a yard's machine is what it is: a trn1 without a single device."""
    broke = slurm.sbatch("--nodes=1", "--output=broke-%j.log", "--wrap", f"'rm -f {STAND_IN}'")
    slurm.ends_well(broke, f"broke-{broke}.log")
    unfit = slurm.job(broke)["BatchHost"]
    job = slurm.sbatch("--nodes=1", "--output=elsewhere-%j.log", "--wrap", "hostname")
    slurm.ends_well(job, f"elsewhere-{job}.log")
    assert slurm.job(job)["BatchHost"] != unfit
    assert "Reason=slipway: 0 of 16 neuron devices; 0 of 8 EFA devices" in slurm.node(unfit)
    assert "+POWER" in slurm.node(unfit)
    nodes = slurm.yard.data("slipway", "status", "--on", "trn1", "--nodes", "--json")
    (row,) = [node for node in nodes if node["name"] == unfit]
    assert "0 of 16 neuron devices" in row["why"]
