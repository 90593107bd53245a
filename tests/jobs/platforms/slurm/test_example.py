"""The batch script of docs/examples, which does not use Slipway, works on a real Slurm of two nodes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from slipway.containers.runtime.rendezvous.peers import free_port
from slipway.jobs.submit.curve import points
from tests.jobs.platforms.slurm.one_slurm import OneSlurm

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"
STEPS = 400


@pytest.mark.slow
@pytest.mark.long  # torch is loaded four times; test_arrays.py and node/ test Slurm's part
def test_the_script_trains_on_both_nodes_and_goes_on_after_it_was_requeued(
    slurm: OneSlurm, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    for name in ("ddp/train.py", "slurm/train.sbatch"):
        shutil.copy(EXAMPLES / name, tmp_path)
    own = {
        "PYTHON": sys.executable,
        "STEPS": str(STEPS),
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",  # both nodes are this machine, and their names are not hosts
        "MASTER_PORT": str(free_port(29800)),
    }
    words = ("sbatch", "--parsable", "--nodes=2", "--mem=100", "train.sbatch")
    job = slurm.ask(*words, environment=own, cwd=tmp_path)
    log = tmp_path / f"train-{job}.log"
    slurm.until(lambda: log.exists() and "step 50/" in log.read_text(), "training")
    slurm.ask("scontrol", "requeue", job)
    assert slurm.ended(job) == "COMPLETED", log.read_text()
    curve = points(log.read_text().splitlines())
    assert [each.step for each in curve] == list(range(10, STEPS + 1, 10))
    assert (curve[0].attempt, curve[-1].attempt) == (1, 2)
    assert curve[-1].loss < curve[0].loss
