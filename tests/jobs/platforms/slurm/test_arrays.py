"""An array of jobs is submitted, shown, explained and cancelled as one job."""

from __future__ import annotations

from dataclasses import replace

from slipway.jobs.platforms.slurm import platform
from slipway.jobs.platforms.slurm.node.attempts import read_standing
from slipway.jobs.platforms.slurm.runs import describe, list_runs, read_run, whole_jobs
from slipway.jobs.words.job import Job, request_key
from slipway.jobs.words.run import JobState, Run
from slipway.jobs.words.slurm import SlurmAnswer, SlurmAttempt, SlurmRecord, encode
from tests.jobs.platforms.slurm.conftest import Cluster
from tests.jobs.platforms.slurm.test_platform import RECORD, Sdk, sdk
from tests.jobs.words.test_targets import SLURM_TARGET

__all__ = ["sdk"]  # a fixture

WAITING = replace(RECORD, id="7", reason="Resources")  # what is left of the array in the queue


def element(number: int, state: str, **changes: object) -> SlurmRecord:
    ended = {"ended": 160 + number, "exit_code": 0} if state != "RUNNING" else {}
    given = {"id": f"7_{number}", "state": state, "reason": "", "started": 100 + number, **ended, **changes}
    return replace(RECORD, **given)  # type: ignore[arg-type]  # of a test's own fields


def tokens(name: str, **settings: str) -> Job:
    return Job(name=name, recipe="prepare_tokens", nodes=1, array="0-2", settings=settings)


def told(cluster: Cluster, name: str) -> Run:
    (run,) = [run for run in list_runs(cluster.target) if run.name == name]
    return run


def test_each_element_does_its_share_and_the_array_is_one_job_that_costs_all_of_them(
    cluster: Cluster, sdk: Sdk
) -> None:
    job_id, request = cluster.submit(tokens("shares"))
    assert cluster.submit(tokens("shares"))[0] == job_id, "twice is once"
    assert [cluster.slurm.ended(f"{job_id}_{number}") for number in range(3)] == ["COMPLETED"] * 3
    log = cluster.log(request.name)
    assert [log.count(f'"share={number}/3"') for number in range(3)] == [1, 1, 1]
    run = told(cluster, request.name)
    assert (run.id, run.state, run.exit_code, len(run.attempts)) == (job_id, JobState.SUCCEEDED, 0, 3)
    answer = read_standing(cluster.runs, request.name)
    assert {record.id for record in answer.jobs} == {f"{job_id}_{number}" for number in range(3)}


def test_an_array_of_which_one_element_fails_has_failed_and_says_which(cluster: Cluster, sdk: Sdk) -> None:
    job_id, request = cluster.submit(tokens("fails", mode="second_fails"))
    assert [cluster.slurm.ended(f"{job_id}_{number}") for number in (0, 2)] == ["COMPLETED"] * 2
    assert cluster.slurm.ended(f"{job_id}_1") == "FAILED"
    sdk.put_object(Key=request_key(request.name), Body=encode(request))
    found = platform.refresh(job_id, cluster.target)
    assert found is not None
    assert (found.run.state, found.run.exit_code) == (JobState.FAILED, 3)
    told = platform.explain(found)
    assert "of 3 elements 2 COMPLETED, 1 FAILED" in told.evidence
    assert "element 1 is FAILED, exit code 3" in told.evidence


def test_cancelling_an_array_ends_the_elements_that_run_and_those_that_wait(
    cluster: Cluster, sdk: Sdk
) -> None:
    job_id, request = cluster.submit(replace(tokens("ends", mode="resume"), array="0-2%1"))
    cluster.slurm.until(lambda: "trains" in cluster.log(request.name), "training")
    found = platform.refresh(job_id, cluster.target)
    assert found is not None
    assert found.run.state is JobState.RUNNING
    platform.cancel(found, "not needed")
    cluster.slurm.until(lambda: told(cluster, request.name).state.is_final, "over")
    assert told(cluster, request.name).status == "CANCELLED"


def test_an_array_is_in_the_state_that_matters_and_counts_what_waits() -> None:
    elements = [WAITING, element(0, "COMPLETED"), element(1, "FAILED", exit_code=3)]
    (whole,) = whole_jobs(elements)
    assert (whole.id, whole.state, whole.ended, whole.started) == ("7", "PENDING", None, 100)
    assert list(describe(elements, 4)) == [
        "of 4 elements 1 COMPLETED, 1 FAILED, 2 PENDING",
        "element 1 is FAILED, exit code 3",
    ]
    (whole,) = whole_jobs([*elements, element(2, "RUNNING")])
    assert whole.state == "RUNNING"
    (whole,) = whole_jobs(elements[1:])
    assert (whole.state, whole.ended, whole.exit_code) == ("FAILED", 161, 3)


def test_the_hours_of_an_array_are_those_of_all_of_its_elements() -> None:
    elements = (element(0, "COMPLETED"), element(1, "COMPLETED"))
    attempts = (SlurmAttempt(job="7_1", number=1, started=41, ended=101, exit_code=85),)
    answer = SlurmAnswer(jobs=elements, attempts=attempts)
    (whole,) = whole_jobs(elements)
    run = read_run(whole, answer, None, SLURM_TARGET)
    assert run.hours == round((60 + 60 + 60) / 3600, 4)
