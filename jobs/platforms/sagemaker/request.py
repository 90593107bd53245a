"""Builds the CreateTrainingJob of a job; no other job of the account may have its name.

The code is an archive in the cluster's bucket, which AWS's toolkit unpacks in the container; its entry point
is containers/runtime/launch/sagemaker_entry.py. The request is kept next to the job's files, as it was sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.containers.runtime.contract import variables
from slipway.jobs.platforms.sagemaker.files import FileSettings, JobFiles, decide_files
from slipway.jobs.words.job import DoesNotFit, Job, code_key, code_words, request_key, submission_name
from slipway.jobs.words.launch_environment import launch_environment, refuse_misfit, timeout_seconds
from slipway.jobs.words.names import CLUSTER_TAG, TARGET_TAG
from slipway.jobs.words.run import JobState
from slipway.jobs.words.sagemaker import (
    FIRST_PROCESS,
    MODEL,
    TENSORBOARD,
    metric_definitions,
    output_url,
    refuse_too_many,
    setting_hyperparameters,
    toolkit_hyperparameters,
)
from slipway.jobs.words.targets import SageMakerTarget

# SecondaryStatus, which is more exact than TrainingJobStatus (SageMaker API Reference, DescribeTrainingJob).
STATES: Mapping[str, JobState] = {
    **dict.fromkeys(
        (
            "Starting",
            "Pending",
            "LaunchingMLInstances",
            "PreparingTrainingStack",
            "Interrupted",
            "Restarting",
        ),
        JobState.WAITING,
    ),
    **dict.fromkeys(("Downloading", "DownloadingTrainingImage"), JobState.STARTING),
    **dict.fromkeys(("Training", "Updating", "Uploading", "Stopping"), JobState.RUNNING),
    "Completed": JobState.SUCCEEDED,
    **dict.fromkeys(("Failed", "Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded"), JobState.FAILED),
}

ATTEMPTS = 3  # SageMaker repeats a job only after faults of its own, within the job's time
GRACE_SECONDS = 100  # of the 120 between SIGTERM and the end (API Reference, StopTrainingJob)
_NO_FILES = FileSettings()
_DIGEST_SHOWN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerRequest:
    """Holds everything that will be sent, except the code itself; a dry run prints it."""

    digest: str  # of the code
    put: Mapping[str, Any]  # of the request object
    create: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.create["TrainingJobName"])


def build_request(
    job: Job, target: SageMakerTarget, *, module: str, code: str, files: FileSettings = _NO_FILES
) -> SageMakerRequest:
    """Build the request; `code` is the archive's digest."""
    refuse_misfit(job, target)
    if job.depends_on:
        raise DoesNotFit(
            f"job '{job.name}' waits for {', '.join(job.depends_on)}, and a training job of SageMaker waits "
            "for no other",
            hint="submit it after the other has ended: slipway submit … --follow",
        )
    name = training_job_name(job, target, code)
    create = _create(target, name, code, module, decide_files(job, target, name, files))
    owner = {"Bucket": target.bucket, "ExpectedBucketOwner": target.account}
    body = json.dumps(create, sort_keys=True)
    put = {**owner, "Key": request_key(name), "Body": body, "ContentType": "application/json"}
    return SageMakerRequest(digest=code, put=put, create=create)


def training_job_name(job: Job, target: SageMakerTarget, code: str) -> str:
    """Return the training job's name; SageMaker allows no underscore, and a digest keeps names apart."""
    image = f"{job.image or target.image}#{code[:_DIGEST_SHOWN]}"
    return submission_name(job, target, image).replace("_", "-")


def attempts(job: Job) -> int:
    return ATTEMPTS if job.attempts is None else job.attempts


def most_seconds(job: Job, target: SageMakerTarget) -> int:
    """Return the most seconds that instances are billed: for all attempts together, and warm afterwards."""
    return timeout_seconds(job, target) + target.warm_pool_seconds


def image_words(own: str | None, target: SageMakerTarget, code: str) -> str:
    """Describe for users what a job runs in; `own` is the image that the job names."""
    return own or code_words(target.machine_image, code)


def _create(target: SageMakerTarget, name: str, code: str, module: str, files: JobFiles) -> dict[str, Any]:
    job = files.job
    hyperparameters = {
        **toolkit_hyperparameters(name, f"s3://{target.bucket}/{code_key(code)}", target.region),
        **setting_hyperparameters(job.settings),
    }
    environment = _environment(target, name, module, files)
    refuse_too_many(hyperparameters, environment)
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {
            "TrainingImage": job.image or target.image,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": list(FIRST_PROCESS),
            "MetricDefinitions": metric_definitions(),
        },
        "RoleArn": target.execution_role,
        "HyperParameters": hyperparameters,
        "Environment": environment,
        "OutputDataConfig": {
            "S3OutputPath": output_url(target.bucket),
            **_key("KmsKeyId", target.output_key),
        },
        "ResourceConfig": _resources(job, target),
        "StoppingCondition": _stopping(job, target),
        "VpcConfig": {"Subnets": [target.subnet], "SecurityGroupIds": [target.security_group]},
        "Tags": [{"Key": key, "Value": target.name} for key in (TARGET_TAG, CLUSTER_TAG)],
        "EnableManagedSpotTraining": target.is_spot,
        "EnableNetworkIsolation": False,  # the toolkit fetches the code from S3
        # Instances communicate within their own subnet and group, and EFA does not work with the encryption.
        "EnableInterContainerTrafficEncryption": False,
        **_retries(job),
        **_file_settings(files),
    }


def _environment(target: SageMakerTarget, name: str, module: str, files: JobFiles) -> dict[str, str]:
    told = {
        variables.LOGS: TENSORBOARD,
        variables.ARCHIVE: MODEL,
        **launch_environment(files.job, target, name),
        variables.RUN: name,
        variables.MODULE: module,
        variables.GRACE_SECONDS: str(GRACE_SECONDS),
    }
    del told["AWS_REGION"]  # SageMaker sets it itself
    return dict(sorted(told.items()))


def _resources(job: Job, target: SageMakerTarget) -> dict[str, Any]:
    return {
        "InstanceType": target.instance_type,
        "InstanceCount": job.nodes,
        "VolumeSizeInGB": target.volume_gb,
        **_key("VolumeKmsKeyId", target.volume_key),
        **({"KeepAlivePeriodInSeconds": target.warm_pool_seconds} if target.warm_pool_seconds else {}),
    }


def _stopping(job: Job, target: SageMakerTarget) -> dict[str, int]:
    """Return the time limits; with a retry strategy both apply to all attempts together."""
    seconds = timeout_seconds(job, target)
    wait = {"MaxWaitTimeInSeconds": seconds + target.spot_wait_seconds} if target.is_spot else {}
    return {"MaxRuntimeInSeconds": seconds, **wait}


def _retries(job: Job) -> dict[str, Any]:
    more = attempts(job) - 1
    return {"RetryStrategy": {"MaximumRetryAttempts": more}} if more else {}


def _file_settings(files: JobFiles) -> dict[str, Any]:
    given = {
        "InputDataConfig": files.channels,
        "CheckpointConfig": files.checkpoint_config,
        "TensorBoardOutputConfig": files.tensorboard_config,
    }
    return {name: value for name, value in given.items() if value}


def _key(name: str, key: str | None) -> dict[str, str]:
    return {name: key} if key else {}
