"""What the yard's own API does with training jobs: wait for one, take its Spot instances back, kill one."""

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


def find_running(text: str) -> TrainingJob | None:
    """Return the one running job of this name, or whose name begins so."""
    running = [job for job in records.jobs.values() if job.running]
    exact = [job for job in running if job.name == text]
    found = exact or [job for job in running if text and job.name.startswith(text)]
    return found[0] if len(found) == 1 else None


def kill_instance(job: TrainingJob, index: int) -> str:
    """Let one of its machines die, as a power failure would."""
    with records.changed:
        if not 0 <= index < job.instances:
            raise ValueError(f"job {job.name} has no node {index}; it has 0 to {job.instances - 1}")
        if job.running is None:
            raise ValueError(f"job {job.name} does not run any longer")
        job.running.lose(index)
        return job.name


def _given(asked: object) -> Mapping[str, Any]:
    if not isinstance(asked, Mapping):
        raise ValueError("give the name of the training job as 'job'")
    return asked


def _running(name: str) -> TrainingJob:
    found = find_running(name)
    if found is None:
        known = ", ".join(job.name for job in records.jobs.values() if job.running) or "none"
        raise ValueError(f"no training job '{name}' is running; those that run: {known}")
    return found
