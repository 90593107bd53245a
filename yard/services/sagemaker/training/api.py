"""The API of SageMaker's training jobs, which this folder runs as real processes.

To add an operation: a function and its line below. Tags are kept in moto, so that AddTags and ListTags find
them.
"""

from __future__ import annotations

import atexit
import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.machines import memory
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.recorded import paged
from slipway.yard.services.sagemaker.training import checks, lifecycle, records
from slipway.yard.services.sagemaker.training.records import TrainingJob

# For the yard's own API: wait for a job, reclaim its Spot instances, kill an instance.
LONGEST_WAIT_S = 8.0  # the client gives up after slipway.yard.endpoint.TIMEOUT_S


def await_job(asked: object) -> str:
    """Return the status of a job once it has ended or the time is over."""
    given = _given(asked)
    return records.wait_until_final(
        str(given.get("job")), min(float(given.get("timeout_s", 0)), LONGEST_WAIT_S)
    )


def interrupt_job(asked: object) -> str:
    """Reclaim the instances of a managed spot training job, as EC2 does."""
    name = str(_given(asked).get("job"))
    with records.changed:
        job = find_running(name)
        if job is None:
            known = ", ".join(job.name for job in records.jobs.values() if job.running) or "none"
            raise ValueError(f"no training job '{name}' is running; those that run: {known}")
        if not job.is_spot:
            raise ValueError(
                f"training job '{name}' runs on demand; only managed spot training is interrupted"
            )
        assert job.running
        job.running.interrupt()
        return job.name


def find_running(text: str) -> TrainingJob | None:
    """Return the one running job whose name is or begins with `text`; None if there is not exactly one."""
    running = [job for job in records.jobs.values() if job.running]
    exact = [job for job in running if job.name == text]
    found = exact or [job for job in running if text and job.name.startswith(text)]
    return found[0] if len(found) == 1 else None


def kill_instance(job: TrainingJob, index: int) -> str:
    """Kill one instance of the job, as a power failure would; return the job's name."""
    with records.changed:
        if not 0 <= index < job.instances:
            raise ValueError(f"job {job.name} has no node {index}; it has 0 to {job.instances - 1}")
        if job.running is None:
            raise ValueError(f"job {job.name} no longer runs")
        job.running.lose(index)
        return job.name


def _given(asked: object) -> Mapping[str, Any]:
    if not isinstance(asked, Mapping):
        raise ValueError("give the name of the training job as 'job'")
    return asked


Parameters = Mapping[str, Any]

END_TIMEOUT_S = 10.0
_SORTED_BY: Mapping[str, Callable[[TrainingJob], Any]] = {
    "Name": lambda job: job.name,
    "CreationTime": lambda job: job.created,
    "Status": lambda job: job.status,
}


def reset() -> None:
    """End every process of every job."""
    with records.changed:
        for job in records.jobs.values():
            job.is_stopping = True
        records.changed.notify_all()
        records.changed.wait_for(_have_all_ended, END_TIMEOUT_S)
        records.jobs.clear()


def _have_all_ended() -> bool:
    left = [job for job in records.jobs.values() if not job.is_final]
    for job in left:
        if job.running:
            job.running.stop()
            job.running.kill_all()
    return not left


@lru_cache(maxsize=1)
def _end_with_the_yard() -> None:
    atexit.register(reset)


def _create(parameters: Parameters, region: str) -> dict[str, Any]:
    _end_with_the_yard()
    name = parameters["TrainingJobName"]
    _refuse_taken(name, region)
    checks.refuse(parameters, region)
    job = TrainingJob(
        name=name,
        region=region,
        given=copy.deepcopy({key: value for key, value in parameters.items() if value is not None}),
        tags=list(parameters.get("Tags") or ()),
        created=datetime.now(UTC),
    )
    if problem := memory.promises.refusal(memory.Need(nodes=job.instances, ranks=job.instances)):
        raise ApiError("ResourceLimitExceeded", problem)
    with records.changed:
        _refuse_taken(name, region)
        records.jobs[region, name] = job
        moto_backend("sagemaker", region).training_jobs[name] = job
    lifecycle.start(job)
    return {"TrainingJobArn": job.arn}


def _refuse_taken(name: str, region: str) -> None:
    if job := records.jobs.get((region, name)):
        raise ApiError(
            "ResourceInUse",
            "Training job names must be unique within an AWS account and region, and a training job with "
            f"this name already exists ({job.arn})",
        )


def _describe(parameters: Parameters, region: str) -> dict[str, Any]:
    with records.changed:
        return records.detail(_known(parameters, region))


def _stop(parameters: Parameters, region: str) -> dict[str, Any]:
    with records.changed:
        job = _known(parameters, region)
        if job.is_final:
            raise checks.invalid(
                f"The request was rejected because the training job is in status {job.status}."
            )
        if not job.is_stopping:
            job.is_stopping = True
            job.status = "Stopping"
            records.enter(job, "Stopping", "Stopping the training job")
            if job.running:
                job.running.stop()
    return {}


def _list(parameters: Parameters, region: str) -> dict[str, Any]:
    with records.changed:
        jobs = [job for (where, _), job in records.jobs.items() if where == region]
        found = [job for job in jobs if _matches(job, parameters)]
        key = _SORTED_BY[parameters.get("SortBy") or "CreationTime"]
        found.sort(key=key, reverse=(parameters.get("SortOrder") or "Descending") == "Descending")
        rows = [records.summary(job) for job in found]
    return paged("TrainingJobSummaries", rows, parameters, asked=("NextToken", "MaxResults"), size=10)


def _matches(job: TrainingJob, parameters: Parameters) -> bool:
    after, before = parameters.get("CreationTimeAfter"), parameters.get("CreationTimeBefore")
    return (
        parameters.get("NameContains", "") in job.name
        and parameters.get("StatusEquals") in (None, job.status)
        and (after is None or job.created >= after)
        and (before is None or job.created <= before)
    )


def _known(parameters: Parameters, region: str) -> TrainingJob:
    if job := records.jobs.get((region, parameters["TrainingJobName"])):
        return job
    raise checks.invalid("Requested resource not found.")


OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "CreateTrainingJob": _create,
    "DescribeTrainingJob": _describe,
    "ListTrainingJobs": _list,
    "StopTrainingJob": _stop,
}
