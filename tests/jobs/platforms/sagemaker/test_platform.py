"""A training job is sent once, read as SageMaker describes it, and refused with a reason."""

from __future__ import annotations

import io
import tarfile
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from slipway.jobs.platforms.platform import MayHaveTwins, nodes_of, waiting_of
from slipway.jobs.platforms.sagemaker import platform
from slipway.jobs.platforms.sagemaker.explain import explain
from slipway.jobs.platforms.sagemaker.platform import BUCKET_PACKAGE, NameTaken, pack_for
from slipway.jobs.platforms.sagemaker.runs import list_jobs, list_runs, refresh, unfinished_runs
from slipway.jobs.platforms.sending import Waiting
from slipway.jobs.submit.find import find_run
from slipway.jobs.submit.submission import Consent, submit_prepared
from slipway.jobs.words.catalogue.instances import instance_type, training_types
from slipway.jobs.words.run import Agreed, JobState
from tests.jobs.platforms.sagemaker.conftest import Sdk
from tests.jobs.platforms.sagemaker.training_jobs import (
    JOB,
    NOON,
    TARGET,
    failed,
    pack_once,
    prepared,
    ran,
    submitted,
    why,
)

__all__ = ["pack_once"]


def test_the_toolkit_finds_the_entry_point_at_the_root_of_the_uploaded_code(sdk: Sdk) -> None:
    name = submitted(sdk)
    digest = prepared().request.digest
    with tarfile.open(fileobj=io.BytesIO(sdk.objects[f"code/{digest}.tar.gz"])) as archive:  # type: ignore[arg-type]  # the code is bytes
        names = archive.getnames()
    assert "slipway_start.py" in names
    assert "slipway/containers/runtime/launch/launcher.py" in names
    assert "requirements.txt" not in names, "it would be fetched from the internet"
    assert name in sdk.jobs


def test_a_cluster_with_a_way_to_the_internet_fetches_what_the_image_lacks() -> None:
    packed = pack_for(replace(TARGET, has_internet=True)).packed
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        wanted = archive.extractfile("requirements.txt")
        assert wanted is not None
        assert wanted.read().decode().strip() == BUCKET_PACKAGE
    lock = Path(__file__).parents[4] / "containers/images/cpu/requirements.txt"
    assert f"{BUCKET_PACKAGE} " in lock.read_text(encoding="utf-8"), "the version of the other images"


def test_a_lost_answer_makes_no_second_job(sdk: Sdk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SageMaker accepted the job, and the connection broke before the answer."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    create, calls = sdk.create_training_job, []

    def answer_is_lost(**given: Any) -> None:
        calls.append(given["TrainingJobName"])
        create(**given)
        raise ReadTimeoutError(endpoint_url="https://api.sagemaker.us-east-1.amazonaws.com")

    monkeypatch.setattr(Sdk, "create_training_job", lambda _self, **given: answer_is_lost(**given))
    waiting = Waiting(pause=lambda _: None, now=lambda: 0.0, share=lambda: 1.0)
    sent = submit_prepared(prepared(), Consent(agreed=Agreed(usd=1e6)), waiting=waiting)
    again = submit_prepared(prepared(), Consent(agreed=Agreed(usd=1e6)), waiting=waiting)
    assert (sent.job_id, again.job_id, again.existed) == (prepared().name, prepared().name, True)
    assert calls == [prepared().name]


def test_a_job_is_created_once_and_another_of_the_account_with_its_name_is_not_taken_for_ours(
    sdk: Sdk,
) -> None:
    name = prepared().name
    assert platform.send(prepared(), None) == platform.send(prepared(), None)
    assert len(sdk.jobs) == 1
    assert platform.find_job_id(name, TARGET) == name
    assert (nodes_of(TARGET), waiting_of(TARGET), isinstance(platform, MayHaveTwins)) == (None, None, False)
    sdk.jobs[name] = {"TrainingJobName": name}
    with pytest.raises(NameTaken, match="has another training job of the name"):
        platform.send(prepared(), None)


def test_the_jobs_of_a_cluster_are_those_of_its_bucket_and_not_of_the_account(sdk: Sdk) -> None:
    name = submitted(sdk)
    sdk.jobs["somebody-elses"] = {"TrainingJobName": "somebody-elses"}
    sdk.objects["jobs/refused-once/request.json"] = "{}"
    assert [job.id for job in list_jobs(TARGET)] == ["refused-once", name]
    assert [run.name for run in list_runs(TARGET)] == [name]
    assert [run.name for run in unfinished_runs(TARGET)] == [name]


def test_a_job_is_found_by_the_name_that_it_was_given_although_sagemaker_knows_no_underscore(
    sdk: Sdk,
) -> None:
    sent = prepared(replace(JOB, name="gptj_sst2"))
    name = platform.send(sent, None)
    sdk.jobs[name] |= {"CreationTime": NOON}
    assert name.startswith("gptj-sst2-")
    assert find_run("gptj_sst2", [TARGET]).run.name == name


def test_a_job_costs_at_most_its_time_once_since_sagemaker_limits_all_attempts_together() -> None:
    ceiling = prepared(replace(JOB, timeout_seconds=3600), warm_pool_seconds=1800, is_spot=False).ceiling
    assert ceiling.node_hours == 3.0
    price = instance_type("ml.p4d.24xlarge").price
    assert price is not None
    assert ceiling.usd == pytest.approx(3 * price.usd_per_hour), "at SageMaker's price, not EC2's"
    unpriced = next(known.name for known in training_types() if known.price is None)
    ceiling = prepared(instance_type=unpriced, efa_interfaces=0).ceiling
    assert (ceiling.usd, ceiling.node_hours) == (None, 48.0)


def test_a_finished_job_is_billed_by_sagemakers_own_count(sdk: Sdk) -> None:
    warm = {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 900}
    name = submitted(
        sdk,
        **ran(7200, TrainingJobStatus="Completed", SecondaryStatus="Completed", WarmPoolStatus=warm),
    )
    sdk.jobs[name]["BillableTimeInSeconds"] = 2700  # Spot, at a discount
    found = refresh(name, TARGET)
    assert found is not None
    assert (found.run.state, found.run.exit_code) == (JobState.SUCCEEDED, 0)
    assert (found.run.recipe, found.run.nodes, found.run.hours) == ("smoke", 2, 1.0)
    assert found.run.cost.node_hours == 2.0
    assert found.run.cost.usd == pytest.approx(2 * instance_type("ml.p4d.24xlarge").price.usd_per_hour)  # type: ignore[union-attr]  # it has one


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("Starting", JobState.WAITING),
        ("DownloadingTrainingImage", JobState.STARTING),
        ("Training", JobState.RUNNING),
        ("Interrupted", JobState.WAITING),
        ("Stopping", JobState.RUNNING),
        ("Stopped", JobState.FAILED),
        ("MaxRuntimeExceeded", JobState.FAILED),
    ],
)
def test_the_second_status_says_how_a_job_is(sdk: Sdk, status: str, state: JobState) -> None:
    found = refresh(submitted(sdk, SecondaryStatus=status), TARGET)
    assert found is not None
    assert (found.run.status, found.run.state) == (status, state)


def test_interruptions_are_attempts_and_every_step_of_the_way_is_told(sdk: Sdk) -> None:
    at = [NOON + timedelta(minutes=n) for n in range(6)]
    steps = [
        {
            "Status": "Starting",
            "StartTime": at[0],
            "EndTime": at[1],
            "StatusMessage": "Launching ML instances",
        },
        {"Status": "Training", "StartTime": at[1], "EndTime": at[3], "StatusMessage": "Training in progress"},
        {
            "Status": "Interrupted",
            "StartTime": at[3],
            "EndTime": at[4],
            "StatusMessage": "Spot was taken back",
        },
        {"Status": "Training", "StartTime": at[4], "StatusMessage": "Training in progress"},
    ]
    found = refresh(submitted(sdk, SecondaryStatus="Training", SecondaryStatusTransitions=steps), TARGET)
    assert found is not None
    assert [(each.started_at, each.stopped_at) for each in found.run.attempts] == [(at[1], at[3])]
    told = explain(found)
    assert told.sentence.endswith("runs on 2 instances, attempt 2")
    assert told.evidence[1] == "12:01:00 Training for 120 s: Training in progress"
    assert "Interrupted" in told.evidence[2]


def test_a_job_that_waits_for_machines_says_so(sdk: Sdk) -> None:
    said = "Insufficient capacity error from EC2 while launching instances, retrying!"
    steps = [{"Status": "Starting", "StartTime": NOON, "StatusMessage": said}]
    said = why(sdk, submitted(sdk, SecondaryStatusTransitions=steps))
    assert "waits: AWS has too few free machines of this type in the cluster's zone" in said


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("CapacityError: Unable to provision requested ML compute capacity.", "too few free machines"),
        (
            "AlgorithmError: ModuleNotFoundError: No module named 'obstore'; exit code 1, exit code: 1",
            "the training image lacks a Python package",
        ),
        ("ClientError: Data download failed:Could not download s3://b/x", "its data is not where it looks"),
        ("AlgorithmError: rank 1: No space left on device; exit code 1", "the volume of an instance is full"),
        (
            "AlgorithmError: error: size is 'huge', and must be tiny; exit code 2\nmore, exit code: 1",
            "the program refused what it was given (exit code 2): error: size is 'huge', and must be tiny",
        ),
        (
            "AlgorithmError: lost node 1 (algo-2); exit code 85\nmore, exit code: 1",
            "it asked for another attempt, and SageMaker tries a job again only for faults of its own",
        ),
        ("AlgorithmError: the loss is nan", "failed: the loss is nan"),
        ("InternalServerError: We encountered an internal error.", "SageMaker itself failed"),
    ],
)
def test_a_failure_is_told_in_a_sentence(sdk: Sdk, reason: str, said: str) -> None:
    assert said in why(sdk, submitted(sdk, **failed(reason)))


def test_a_job_that_was_cancelled_or_took_or_waited_too_long_says_which(sdk: Sdk) -> None:
    name = submitted(sdk, **failed("", "MaxRuntimeExceeded"))
    assert "took longer than its timeout, which counts all attempts together" in why(sdk, name)
    sdk.jobs[name]["SecondaryStatus"] = "MaxWaitTimeExceeded"
    assert "waited for Spot capacity longer than it may" in why(sdk, name)
    found = refresh(name, TARGET)
    assert found is not None
    platform.cancel(found, "enough")
    assert sdk.stopped == [name]
    sdk.jobs[name] |= {"TrainingJobStatus": "Stopped", "SecondaryStatus": "Stopped"}
    assert f"--checkpoints s3://slipway-gptj-data/jobs/{name}/checkpoints" in why(sdk, name)


def test_logs_are_told_by_instance_and_the_last_error_is_part_of_why(sdk: Sdk) -> None:
    name = submitted(sdk, **failed("AlgorithmError: it ended"))
    sdk.streams = {
        f"{name}/algo-10-1": [],
        f"{name}/algo-2-1767268800": [],
        f"{name}/algo-1-1767268800": ["[0] step 1/2", "[0] error: the loss is nan"],
        f"{name}-2/algo-1-1767268800": ["another job"],
    }
    found = refresh(name, TARGET)
    assert found is not None
    assert platform.log_streams(found, None) == [
        (0, f"{name}/algo-1-1767268800"),
        (1, f"{name}/algo-2-1767268800"),
        (9, f"{name}/algo-10-1"),
    ]
    assert platform.log_streams(found, 1) == [(1, f"{name}/algo-2-1767268800")]
    assert "the log: [0] error: the loss is nan" in explain(found).evidence


def test_jobs_are_asked_for_several_at_once(sdk: Sdk, monkeypatch: pytest.MonkeyPatch) -> None:
    """SageMaker describes one job for each call: thousands in a row take a quarter of an hour."""
    for number in range(4):
        sdk.objects[f"jobs/{number}/request.json"] = ""
    together = threading.Barrier(4)

    def describe(_self: Sdk, **given: str) -> dict[str, Any]:
        together.wait(timeout=30)
        return {**given, "TrainingJobStatus": "Completed"}

    monkeypatch.setattr(Sdk, "describe_training_job", describe)
    assert [run.name for run in list_runs(TARGET)] == list("0123")
