"""What the yard's own API does with training jobs: wait for one, take one's Spot instances back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.services.sagemaker.training import records
from slipway.yard.services.sagemaker.training.records import TrainingJob

LONGEST_WAIT_S = 8.0  # the client gives up after slipway.yard.endpoint.TIMEOUT_S


def await_job(asked: object) -> str:
    """Return the status of a job once it has ended or the time is over."""
    given = _given(asked)
    return records.wait_until_final(
        str(given.get("job")), min(float(given.get("timeout_s", 0)), LONGEST_WAIT_S)
    )


def interrupt_job(asked: object) -> str:
    """Take the instances of a managed spot training job back, as EC2 does."""
    name = str(_given(asked).get("job"))
    with records.changed:
        job = _running(name)
        if not job.is_spot:
            raise ValueError(
                f"training job '{name}' runs on demand; only managed spot training is interrupted"
            )
        assert job.running
        job.running.interrupt()
        return job.name


def _given(asked: object) -> Mapping[str, Any]:
    if not isinstance(asked, Mapping):
        raise ValueError("give the name of the training job as 'job'")
    return asked


def _running(name: str) -> TrainingJob:
    running = [job for job in records.jobs.values() if job.running]
    found = [job for job in running if job.name == name]
    if not found:
        known = ", ".join(job.name for job in running) or "none"
        raise ValueError(f"no training job '{name}' is running; those that run: {known}")
    return found[-1]
