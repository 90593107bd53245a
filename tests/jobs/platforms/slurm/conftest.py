"""Fixtures: one real Slurm for the tests of a module, and jobs whose ranks need no torch."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slipway.jobs.platforms.slurm.node.submitting import submit_once
from slipway.jobs.platforms.slurm.node.train import TrainWords, add_arguments, train_words
from slipway.jobs.platforms.slurm.request import build_request
from slipway.jobs.words.job import Job
from slipway.jobs.words.slurm import PYTHON, SlurmJob, decode
from slipway.jobs.words.targets import SlurmTarget
from tests.jobs.platforms.slurm.one_slurm import PARTITION, OneSlurm, is_installed
from tests.jobs.words.test_targets import SLURM_TARGET

CODE = "c" * 64


def words(*given: str, **environment: str) -> TrainWords:
    """Parse the words of a batch script that trains `smoke`."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return train_words(parser.parse_args([*given, "--", "smoke"]), environment)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneSlurm]:
    if not is_installed():
        pytest.skip("Slurm is not installed: slurmctld slurmd slurm-client")
    found = OneSlurm(tmp_path_factory.mktemp("slurm"))
    try:
        found.start()
        yield found
    finally:
        found.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Stand in for a deployed cluster whose shared files are in a folder of the test."""

    slurm: OneSlurm
    root: Path

    @property
    def runs(self) -> Path:
        return self.root / "shared/jobs"

    @property
    def target(self) -> SlurmTarget:
        return replace(
            SLURM_TARGET,
            queue=PARTITION,
            instance_type="c6i.32xlarge",
            efa_interfaces=0,
            file_system_mount=str(self.root / "shared"),
            job_timeout_seconds=3600,
        )

    def request(self, job: Job, waits_for: tuple[str, ...] = ()) -> SlurmJob:
        sent = build_request(job, self.target, module="rank_program", code=CODE, waits_for=waits_for)
        found = decode(sent.put["Body"], where="the request")
        own = [replace(batch, script=batch.script.replace(PYTHON, sys.executable)) for batch in found.batches]
        return replace(found, batches=tuple(own))

    def submit(self, job: Job) -> tuple[str, SlurmJob]:
        request = self.request(job)
        return submit_once(request, self.runs / request.name), request

    def log(self, name: str) -> str:
        return "".join(path.read_text() for path in sorted((self.runs / name).glob("*.log")))


@pytest.fixture
def cluster(slurm: OneSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster(slurm=slurm, root=tmp_path)
    code = tmp_path / f"shared/slipway/code/{CODE}"
    code.mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "rank_program.py", code)
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    monkeypatch.setenv("SLIPWAY_NODE_ROOT", str(tmp_path))
    return found
