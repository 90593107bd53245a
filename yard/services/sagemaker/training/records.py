"""The records of all training jobs, and their views in the API. Change them only with the lock held."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.machines.settings import real_seconds

FINAL = ("Completed", "Failed", "Stopped")


class RunningInstances(Protocol):
    """The instances of a job while they run."""

    def stop(self) -> None: ...

    def interrupt(self) -> None: ...

    def lose(self, index: int) -> None: ...

    def kill_all(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class TrainingJob:
    name: str
    region: str
    given: Mapping[str, Any]  # the parameters of CreateTrainingJob
    tags: list[dict[str, str]]
    created: datetime
    status: str = "InProgress"
    secondary: str = ""
    modified: datetime = field(default_factory=lambda: datetime.now(UTC))
    transitions: list[dict[str, Any]] = field(default_factory=list)
    failure_reason: str | None = None
    started: datetime | None = None  # when its first instances were ready
    ended: datetime | None = None  # when its last instances ended
    billable_seconds: float = 0.0
    metrics: dict[str, tuple[float, datetime]] = field(default_factory=dict)
    model_uri: str | None = None
    launches: int = 0
    retries: int = 0  # retries so far, under its RetryStrategy
    is_stopping: bool = False
    running: RunningInstances | None = None

    @property
    def arn(self) -> str:
        return f"arn:aws:sagemaker:{self.region}:{ACCOUNT}:training-job/{self.name}"

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def instances(self) -> int:
        return int(self.given["ResourceConfig"]["InstanceCount"])

    @property
    def instance_type(self) -> str:
        return str(self.given["ResourceConfig"]["InstanceType"])

    @property
    def hosts(self) -> list[str]:
        return [f"algo-{number}" for number in range(1, self.instances + 1)]

    @property
    def is_spot(self) -> bool:
        return bool(self.given.get("EnableManagedSpotTraining"))


jobs: dict[tuple[str, str], TrainingJob] = {}  # (region, name) -> job, in the order of creation
changed = threading.Condition(threading.RLock())


def instances_in_use(instance_type: str, region: str, *, is_spot: bool) -> int:
    """Return how many instances of a type jobs use, On-Demand or Spot, as SageMaker's quotas count them."""
    asked = (instance_type, region, is_spot)
    with changed:
        running = [job for job in jobs.values() if not job.is_final]
        return sum(job.instances for job in running if (job.instance_type, job.region, job.is_spot) == asked)


def enter(job: TrainingJob, secondary: str, message: str) -> None:
    """Begin a secondary status; if it is the current one, only change its message, as on AWS."""
    now = datetime.now(UTC)
    with changed:
        job.secondary, job.modified = secondary, now
        last = job.transitions[-1] if job.transitions else {}
        if last.get("Status") == secondary:
            last["StatusMessage"] = message
        else:
            if last:
                last["EndTime"] = now
            job.transitions.append({"Status": secondary, "StartTime": now, "StatusMessage": message})
        changed.notify_all()


def end(job: TrainingJob, status: str, secondary: str, message: str) -> None:
    """Set the job's final status."""
    with changed:
        job.ended = datetime.now(UTC)
        enter(job, secondary, message)
        job.transitions[-1]["EndTime"] = job.ended
        job.status = status


def wait_until_final(name: str, timeout_s: float) -> str:
    """Return the status of the job of this name once it has ended or the time is over."""
    with changed:
        found = [job for (_, known), job in jobs.items() if known == name]
        if not found:
            return "FORGOTTEN"
        changed.wait_for(lambda: all(job.is_final for job in found), timeout_s)
        return found[-1].status


def since(moment: datetime) -> float:
    return time.time() - moment.timestamp()


# Training jobs as DescribeTrainingJob and ListTrainingJobs show them.
View = dict[str, Any]

_AS_GIVEN = (
    "AlgorithmSpecification",
    "CheckpointConfig",
    "EnableInterContainerTrafficEncryption",
    "EnableManagedSpotTraining",
    "EnableNetworkIsolation",
    "Environment",
    "ExperimentConfig",
    "HyperParameters",
    "InfraCheckConfig",
    "InputDataConfig",
    "OutputDataConfig",
    "ProfilerConfig",
    "ResourceConfig",
    "RetryStrategy",
    "RoleArn",
    "StoppingCondition",
    "TensorBoardOutputConfig",
    "VpcConfig",
)


def detail(job: TrainingJob) -> View:
    flags = ("EnableNetworkIsolation", "EnableInterContainerTrafficEncryption", "EnableManagedSpotTraining")
    found = {
        **dict.fromkeys(flags, False),
        **{name: job.given[name] for name in _AS_GIVEN if name in job.given},
        **summary(job),
        "SecondaryStatus": job.secondary,
        "SecondaryStatusTransitions": [dict(transition) for transition in job.transitions],
        "FailureReason": job.failure_reason,
        "TrainingStartTime": job.started,
        "FinalMetricDataList": [
            {"MetricName": name, "Value": value, "Timestamp": moment}
            for name, (value, moment) in job.metrics.items()
        ]
        or None,
        "ModelArtifacts": {"S3ModelArtifacts": job.model_uri} if job.model_uri else None,
    }
    if job.ended and job.started:
        found["TrainingTimeInSeconds"] = round((job.ended - job.started).total_seconds())
        found["BillableTimeInSeconds"] = round(job.billable_seconds)
    return {name: value for name, value in found.items() if value is not None}


def summary(job: TrainingJob) -> View:
    found = {
        "TrainingJobName": job.name,
        "TrainingJobArn": job.arn,
        "TrainingJobStatus": job.status,
        "SecondaryStatus": job.secondary,
        "CreationTime": job.created,
        "LastModifiedTime": job.modified,
        "TrainingEndTime": job.ended,
        "WarmPoolStatus": _warm_pool(job),
    }
    return {name: value for name, value in found.items() if value is not None}


def _warm_pool(job: TrainingJob) -> Mapping[str, Any] | None:
    """Return the status of the warm pool; the yard never reuses its instances."""
    seconds = job.given["ResourceConfig"].get("KeepAlivePeriodInSeconds")
    if not seconds:
        return None
    if job.ended is None or job.status != "Completed":
        return {"Status": "InUse"} if job.ended is None else {"Status": "Terminated"}
    kept_s = min(since(job.ended), real_seconds(seconds))
    status = "Available" if kept_s < real_seconds(seconds) else "Terminated"
    return {"Status": status, "ResourceRetainedBillableTimeInSeconds": int(kept_s)}
