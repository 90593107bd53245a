"""A yard with little memory starts jobs that fit, and says which wait and which never fit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slipway.yard import process
from slipway.yard.machines.memory import VARIABLE, Need
from slipway.yard.machines.settings import CLOCK_VARIABLE, STOP_VARIABLE
from slipway.yard.services.batch.capacity import PROCESSES_VARIABLE
from tests.waiting import until
from tests.yard.asking import refusal
from tests.yard.conftest import RunningYard
from tests.yard.services.batch.conftest import FOREVER, Cluster, new_cluster

ONE_JOB = Need(nodes=2, ranks=4)


@pytest.fixture(scope="module")
def small_yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningYard]:
    home = tmp_path_factory.mktemp("small") / "home"
    with pytest.MonkeyPatch.context() as patch:
        given = {VARIABLE: str(ONE_JOB.mib), STOP_VARIABLE: "0.5", CLOCK_VARIABLE: "0.001"}
        for name, value in given.items():
            patch.setenv(name, value)
        started = process.up(folder=home)
    yield RunningYard(endpoint=started.state.endpoint, home=home)
    process.down(folder=home)


@pytest.fixture(scope="module")
def small(small_yard: RunningYard) -> Cluster:
    cluster = new_cluster(small_yard)
    for processes in (2, 8):
        variable = {"name": PROCESSES_VARIABLE, "value": str(processes)}
        cluster.define(f"of-{processes}", container={"environment": [variable]})
    return cluster


def test_a_job_that_does_not_fit_beside_another_waits_with_the_reason_and_then_runs(small: Cluster) -> None:
    first, second = (small.submit(FOREVER, definition="of-2"), small.submit("pass", definition="of-2"))
    small.says(first, "ready")
    until(lambda: "statusReason" in small.describe(second))
    found = small.describe(second)
    assert found["status"] == "RUNNABLE"
    assert found["statusReason"].startswith("CAPACITY:YARD_MEMORY - This machine has too little memory free")
    small.batch.terminate_job(jobId=first, reason="make room")
    assert small.ended(second)["status"] == "SUCCEEDED"


def test_a_job_that_can_never_fit_is_refused_when_it_is_submitted(small: Cluster) -> None:
    said = refusal(small.submit, code="pass", definition="of-8")
    assert said["Code"] == "ClientException"
    assert said["Message"].endswith("submit it with --processes-per-node 2")
    assert small.batch.list_jobs(jobQueue="queue", jobStatus="RUNNABLE")["jobSummaryList"] == []
