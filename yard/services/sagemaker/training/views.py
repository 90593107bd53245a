"""Training jobs as DescribeTrainingJob and ListTrainingJobs show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.machines.settings import real_seconds
from slipway.yard.services.sagemaker.training import records
from slipway.yard.services.sagemaker.training.records import TrainingJob

View = dict[str, Any]

_AS_GIVEN = (
    "AlgorithmSpecification",
    "CheckpointConfig",
    "DebugHookConfig",
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
    """Return what became of instances that are kept for another job; the yard gives them to none."""
    seconds = job.given["ResourceConfig"].get("KeepAlivePeriodInSeconds")
    if not seconds:
        return None
    if job.ended is None or job.status != "Completed":
        return {"Status": "InUse"} if job.ended is None else {"Status": "Terminated"}
    kept = min(records.since(job.ended), real_seconds(seconds))
    status = "Available" if kept < real_seconds(seconds) else "Terminated"
    return {"Status": status, "ResourceRetainedBillableTimeInSeconds": int(kept)}
