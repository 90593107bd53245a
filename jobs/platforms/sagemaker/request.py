"""Builds the CreateTrainingJob of a job; no other job of the account may have its name.

The code is an archive in the cluster's bucket, which AWS's toolkit unpacks in the container; its entry point
is containers/runtime/launch/sagemaker_entry.py. The request is kept next to the job's files, as it was sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from slipway.containers.runtime.contract import variables
from slipway.jobs.words.job import DoesNotFit, Job, code_key, code_words, request_object, submission_name
from slipway.jobs.words.launch_environment import launch_environment, refuse_misfit, timeout_seconds
from slipway.jobs.words.names import CLUSTER_TAG, TARGET_TAG
from slipway.jobs.words.run import JobState
from slipway.jobs.words.sagemaker import (
    CHANNELS,
    CHECKPOINTS,
    FIRST_PROCESS,
    MODEL,
    TENSORBOARD,
    channel_folder,
    job_url,
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
_DIGEST_SHOWN = 16
DATA_CHANNEL = "data"
OWN_COMMAND = "command"  # name of the recipe
_S3 = "s3://"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """Holds the job as its container sees it, and what SageMaker copies in and out."""

    job: Job
    channels: Sequence[Mapping[str, Any]]
    checkpoint_config: Mapping[str, str]
    tensorboard_config: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """Names the settings of a recipe that may name files in S3."""

    inputs: tuple[str, ...] = ()  # what it reads in its data folder
    code: tuple[str, ...] = ()  # code of its own: they become full paths, and the data folder stays the same


_NO_FILES = FileSettings()


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
    put = request_object(name, json.dumps(create, sort_keys=True), target)
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
    # With a retry strategy both time limits apply to all attempts together.
    seconds, retries = timeout_seconds(job, target), attempts(job) - 1
    wait = {"MaxWaitTimeInSeconds": seconds + target.spot_wait_seconds} if target.is_spot else {}
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
        "ResourceConfig": {
            "InstanceType": target.instance_type,
            "InstanceCount": job.nodes,
            "VolumeSizeInGB": target.volume_gb,
            **_key("VolumeKmsKeyId", target.volume_key),
            **({"KeepAlivePeriodInSeconds": target.warm_pool_seconds} if target.warm_pool_seconds else {}),
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": seconds, **wait},
        "VpcConfig": {"Subnets": [target.subnet], "SecurityGroupIds": [target.security_group]},
        "Tags": [{"Key": key, "Value": target.name} for key in (TARGET_TAG, CLUSTER_TAG)],
        "EnableManagedSpotTraining": target.is_spot,
        "EnableNetworkIsolation": False,  # the toolkit fetches the code from S3
        # Instances communicate within their own subnet and group, and EFA does not work with the encryption.
        "EnableInterContainerTrafficEncryption": False,
        **({"RetryStrategy": {"MaximumRetryAttempts": retries}} if retries else {}),
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


def _file_settings(files: JobFiles) -> dict[str, Any]:
    given = {
        "InputDataConfig": files.channels,
        "CheckpointConfig": files.checkpoint_config,
        "TensorBoardOutputConfig": files.tensorboard_config,
    }
    return {name: value for name, value in given.items() if value}


def _key(name: str, key: str | None) -> dict[str, str]:
    return {name: key} if key else {}


# Decides where one training job reads and writes: its channels, its checkpoints, its charts. SageMaker copies
# /opt/ml/checkpoints of each instance to the bucket, and all of it to each instance of the next attempt.
# Several instances share a file system, if the cluster has one; otherwise ranks write checkpoints to the
# bucket themselves, unless a user's own command asks for that folder.


def decide_files(job: Job, target: SageMakerTarget, name: str, files: FileSettings) -> JobFiles:
    code = _in_s3(job, files.code)
    # The S3 URLs that become channels: --data, or else settings; a job has one data folder.
    brought = _in_s3(job, files.inputs)
    if job.data:
        brought = {DATA_CHANNEL: job.data} if job.data.startswith(_S3) else {}
    channels: list[dict[str, Any]] = []
    for channel, url in {**brought, **code}.items():
        is_file = "." in url.rpartition("/")[2]
        source = {
            "S3DataType": "S3Prefix",
            "S3Uri": url if is_file else f"{url.rstrip('/')}/",  # or sst2 would bring sst2-old as well
            "S3DataDistributionType": "FullyReplicated",
        }
        channels.append({"ChannelName": channel, "DataSource": {"S3DataSource": source}, "InputMode": "File"})
    data_folder = channel_folder(DATA_CHANNEL) if job.data else CHANNELS
    kept = _kept_at(job, target, name)
    shared = job.checkpoints
    if not job.checkpoints and not target.file_system_mount:
        shared = job_url(target.bucket, name, "checkpoints")
    charts = {"LocalPath": TENSORBOARD, "S3OutputPath": job_url(target.bucket, name, "tensorboard")}
    return JobFiles(
        job=replace(
            job,
            settings={
                **job.settings,
                **{key: _place(key, url) for key, url in brought.items() if not job.data},
                **{key: f"{CHANNELS}/{_place(key, url)}" for key, url in code.items()},
            },
            data=data_folder if brought else job.data or None,
            checkpoints=CHECKPOINTS if kept else shared,
        ),
        channels=[*channels, *_shared_files(target)],
        checkpoint_config={"S3Uri": kept, "LocalPath": CHECKPOINTS} if kept else {},
        tensorboard_config={} if target.file_system_mount else charts,
    )


def _in_s3(job: Job, settings: tuple[str, ...]) -> dict[str, str]:
    given = {setting: job.settings.get(setting, "") for setting in settings}
    return {setting: url for setting, url in given.items() if url.startswith(_S3)}


def _place(channel: str, url: str) -> str:
    """Return the path in the folder of all channels: a whole channel, or the file in it."""
    last = url.rpartition("/")[2]
    return f"{channel}/{last}" if "." in last else channel


def _shared_files(target: SageMakerTarget) -> list[dict[str, Any]]:
    mount = target.file_system_mount
    if not (target.file_system_id and mount):
        return []
    assert str(PurePosixPath(mount).parent) == CHANNELS, f"a channel lies in {CHANNELS}, not at {mount}"
    source = {
        "FileSystemId": target.file_system_id,
        "FileSystemType": "FSxLustre",
        "FileSystemAccessMode": "rw",
        "DirectoryPath": target.file_system_path,
    }
    return [{"ChannelName": PurePosixPath(mount).name, "DataSource": {"FileSystemDataSource": source}}]


def _kept_at(job: Job, target: SageMakerTarget, name: str) -> str | None:
    """Return the URL to which SageMaker copies /opt/ml/checkpoints; None if ranks write elsewhere."""
    own = job_url(target.bucket, name, "checkpoints")
    if job.recipe == OWN_COMMAND and job.checkpoints == CHECKPOINTS:
        return own
    if job.nodes > 1:
        return None
    if job.checkpoints is None:
        return None if target.file_system_mount else own
    return job.checkpoints if job.checkpoints.startswith(_S3) else None
