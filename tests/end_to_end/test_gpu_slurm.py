"""A Slurm cluster of p5 without a bake: each node's first boot makes AWS's own AMI a node of ours.

The yard's hosts boot this machine's files with a real systemd and cloud-init; they have no GPU, and run no
containers (docs/yard-fidelity.md).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slipway.jobs.words import slurm as places
from slipway.jobs.words.installation import DECLARATIONS
from slipway.yard.machines.hosts import boot_ways
from slipway.yard.services.pcs import differences
from tests.end_to_end.conftest import Shell
from tests.end_to_end.login_node import LoginNode, login_node
from tests.end_to_end.own_project import TRAIN_MORE_SLOWLY, begin_project, refuse_another_curve

pytest.importorskip("torch", reason="the extra 'training' is not installed")
pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]

DECLARED = """from slipway.infra import Egress, SlurmCluster

CLUSTERS = (
    SlurmCluster(
        name="gpus",
        instance_type="p5.48xlarge",
        max_nodes=2,
        region="us-east-1",
        zone="us-east-1a",
        egress=Egress.NAT,
        budget_usd_per_month=1000,
        alert_email="you@example.com",
        keep_data=False,
    ),
)
MACHINE_IMAGES = ()
"""


@pytest.fixture(scope="module")
def project(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    if why := differences.obstacle() or boot_ways.obstacle_here():
        pytest.skip(f"no Slurm of the yard runs here: {why}")
    project = begin_project(shell, tmp_path_factory.mktemp("gpus") / "mine")
    (project.folder / DECLARATIONS).write_text(DECLARED, encoding="utf-8")
    project.must("cdk", "deploy", "gpus", "--require-approval", "never", "--concurrency", "4")
    yield project
    project.must("slipway", "cluster", "empty", "gpus", "--yes")
    project.must("cdk", "destroy", "gpus*", "--force")


@pytest.fixture(scope="module")
def slurm(project: Shell) -> LoginNode:
    group = project.data("slipway", "cluster", "targets", "gpus", "--json")["login_group"]
    return LoginNode(yard=project, name=login_node(project, group))


def test_the_first_boot_made_awss_own_ami_a_node(slurm: LoginNode) -> None:
    """User data and the payload in S3 brought everything; none of it was in the host's files."""
    assert (
        slurm.types("systemctl is-active slipway-payload slipway-boot slurmd-25.11").split() == ["active"] * 3
    )
    assert "Requires=slipway-boot.service" in slurm.types("systemctl cat slurmd-25.11")
    assert "Gres=gpu:8" in slurm.node("workers-1")


def test_a_script_on_two_nodes_loses_one_resumes_and_ends_with_the_same_losses(
    project: Shell, slurm: LoginNode
) -> None:
    on = ("--on", "gpus", "--nodes", "2", "--processes-per-node", "1", "--name", "mine")
    sent = project.data("slipway", "run", *on, "--json", "--", *TRAIN_MORE_SLOWLY)
    job, log = str(sent["id"]), f"{places.JOBS}/{sent['name']}/run-{sent['id']}.log"
    slurm.trains(job, log)
    assert slurm.job(job)["TresPerNode"].endswith("gpu:8")
    slurm.yard.must("slipway", "yard", "kill-node", slurm.last_host(job))
    slurm.ends_well(job, log)
    refuse_another_curve(slurm.log(log), project.folder)
    ended = project.data("slipway", "status", "mine", "--json")
    assert ended["state"] == "succeeded"
    assert int(slurm.job(job)["Restarts"]) >= 1
    assert "nothing here runs 763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch:" in slurm.log(log)
