"""The deployed trn1: the article's sbatch files on four nodes of a real Slurm, without the accelerators."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from slipway.jobs.core.slurm import places
from slipway.yard.machines.hosts import boot_ways
from slipway.yard.services.pcs import differences
from tests.end_to_end.conftest import Shell

pytest.importorskip("torch", reason="the extra 'training' is not installed")
pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.alone]

NODES = 4
PATIENCE_SECONDS = 600.0
LOOK_AGAIN_SECONDS = 2.0  # each look enters the host
FOLDER = f"{places.SHARED}/trial"
MODEL = "./neox_tiny.sh"
STEP = re.compile(r"step (\d+)\b.*?\bloss (\d+\.\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginNode:
    """Types on the login node."""

    yard: Shell
    name: str

    def types(self, line: str) -> str:
        inside = f"cd {FOLDER} && {line}"
        return self.yard.must("slipway", "yard", "ssh", self.name, "--", "bash", "-c", inside).strip()

    def sbatch(self, script: str, *options: str) -> str:
        words = ("sbatch", "--parsable", f"--nodes={NODES}", *options, script, MODEL, "data=random")
        return self.types(" ".join(words)).splitlines()[-1]

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

    def ends_well(self, job: str, log: str) -> None:
        self.until(lambda: self.job(job)["JobState"] not in ("PENDING", "CONFIGURING", "RUNNING"), log)
        assert self.job(job)["JobState"] == "COMPLETED", self.log(log)

    def losses(self, log: str) -> dict[int, float]:
        return {int(step): float(loss) for step, loss in STEP.findall(self.log(log))}


@pytest.fixture(scope="module")
def slurm(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginNode]:
    if why := differences.obstacle() or boot_ways.obstacle_here():
        pytest.skip(f"no Slurm of the yard runs here: {why}")
    assembly = str(tmp_path_factory.mktemp("assembly"))
    declared = ("-c", "trn1.keep_data=false", "-c", f"trn1.max_nodes={NODES}", "--output", assembly)
    shell.must("cdk", "deploy", "trn1", "--require-approval", "never", "--concurrency", "4", *declared)
    group = shell.data("slipway", "targets", "trn1", "--json")["login_group"]
    yield LoginNode(yard=shell, name=login_node(shell, group))
    shell.must("slipway", "empty", "trn1", "--yes")
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


def test_compile_slurm_and_then_run_slurm_train_on_four_nodes(slurm: LoginNode) -> None:
    compiled = slurm.sbatch("compile.slurm")
    trained = slurm.sbatch("run.slurm", f"--dependency=afterok:{compiled}")
    slurm.ends_well(compiled, f"compile-{compiled}.log")
    slurm.ends_well(trained, f"run-{trained}.log")
    losses = slurm.losses(f"run-{trained}.log")
    assert losses[max(losses)] < losses[min(losses)]
