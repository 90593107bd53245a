"""Describes a training for an SDK's object: the CreateTrainingJob that `slipway submit` sends, and its code.

Also builds that request for a training script of your own, and prints the log for both SDKs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from slipway.jobs.submit.find import refresh
from slipway.jobs.submit.logs import Wanted, follow_lines, mark_of, new_words
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import InvalidConfig, Problem
from slipway.jobs.words.names import CLUSTER_TAG, TARGET_TAG
from slipway.jobs.words.sagemaker import CHECKPOINTS, job_url, metric_definitions, output_url
from slipway.jobs.words.smp.smp_v1 import Smp
from slipway.jobs.words.targets import SageMakerTarget

# Hyperparameters that the toolkit reads; each SDK writes them from its own arguments.
_OF_TOOLKIT = (
    "sagemaker_program",
    "sagemaker_submit_directory",
    "sagemaker_region",
    "sagemaker_job_name",
    "sagemaker_container_log_level",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkTraining:
    """Hold one complete CreateTrainingJob; each SDK's module translates it into the SDK's arguments."""

    create: Mapping[str, Any]
    target: SageMakerTarget
    entry_point: str
    source: str  # a local folder, or the URL of an archive
    is_ours: bool  # True: a job of ours, whose name SageMaker accepts once; False: the SDK names each run
    smp: Smp | None = None
    processes_per_host: int = 1
    arguments: Mapping[str, Any] = field(default_factory=dict)  # the program's, before they become JSON

    @property
    def name(self) -> str:
        return str(self.create["TrainingJobName"])

    @property
    def job_name(self) -> str | None:
        """Return the job's name on SageMaker; None where the SDK makes a new one for each run."""
        return self.name if self.is_ours else None

    @property
    def region(self) -> str:
        return self.target.region

    @property
    def bucket(self) -> str:
        return self.target.bucket


def of_request(create: Mapping[str, Any], target: SageMakerTarget) -> SdkTraining:
    """Make the training of a request whose code is in the bucket already."""
    read = {name: json.loads(value) for name, value in create["HyperParameters"].items()}
    return SdkTraining(
        create=create,
        target=target,
        entry_point=read["sagemaker_program"],
        source=read["sagemaker_submit_directory"],
        is_ours=True,
        arguments={name: value for name, value in read.items() if name not in _OF_TOOLKIT},
    )


# A training script of your own on SageMaker: all settings but the script's are the cluster's.
LONGEST_NAME = 40  # SageMaker accepts 63 characters, and an SDK appends the time
_NAME = re.compile(rf"[A-Za-z0-9](-?[A-Za-z0-9]){{0,{LONGEST_NAME - 1}}}", re.ASCII)
_SMP_IMAGE = "658645717510.dkr.ecr.REGION.amazonaws.com/smdistributed-modelparallel:TAG"


class InvalidScript(InvalidConfig):
    """Reports everything that is wrong with a script's training, before an SDK sees it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Describe the training of one script on one cluster; check it when it is made."""

    name: str  # the SDK appends the time, since each run is another training job
    entry_point: str  # a path in source_dir
    source_dir: str
    nodes: int = 1
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)  # s3:// URLs by the names of their channels
    image: str | None = None  # URI of a training image; None: the cluster's
    smp: Smp | None = None
    timeout_seconds: int | None = None  # None: the cluster's

    def __post_init__(self) -> None:
        if problems := list(_problems(self)):
            raise InvalidScript(problems)


def of_script(script: Script, target: SageMakerTarget) -> SdkTraining:
    """Build the script's training with the cluster's role, network, keys, limits and places."""
    if script.nodes > target.max_nodes:
        message = f"is {script.nodes}, and cluster '{target.name}' has {target.max_nodes}"
        hint = f"set at most {target.max_nodes}, or raise max_nodes in clusters.py"
        raise InvalidScript([Problem(where="nodes", message=message, hint=hint)])
    accelerator = instance_type(target.instance_type).accelerator
    return SdkTraining(
        create=_create(script, target),
        target=target,
        entry_point=script.entry_point,
        source=script.source_dir,
        is_ours=False,
        smp=script.smp,
        processes_per_host=accelerator.count if accelerator else 1,  # a rank for each device
        arguments=script.hyperparameters,
    )


def _create(script: Script, target: SageMakerTarget) -> dict[str, Any]:
    seconds = script.timeout_seconds or target.job_timeout_seconds
    wait = {"MaxWaitTimeInSeconds": seconds + target.spot_wait_seconds} if target.is_spot else {}
    warm = {"KeepAlivePeriodInSeconds": target.warm_pool_seconds} if target.warm_pool_seconds else {}
    kept = job_url(target.bucket, script.name, "checkpoints")
    return {
        "TrainingJobName": script.name,
        "AlgorithmSpecification": {
            "TrainingImage": script.image or target.image,
            "TrainingInputMode": "File",
            "MetricDefinitions": metric_definitions(),
        },
        "RoleArn": target.execution_role,
        "OutputDataConfig": {
            "S3OutputPath": output_url(target.bucket),
            **_key("KmsKeyId", target.output_key),
        },
        "ResourceConfig": {
            "InstanceType": target.instance_type,
            "InstanceCount": script.nodes,
            "VolumeSizeInGB": target.volume_gb,
            **_key("VolumeKmsKeyId", target.volume_key),
            **warm,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": seconds, **wait},
        "VpcConfig": {"Subnets": [target.subnet], "SecurityGroupIds": [target.security_group]},
        "Tags": [{"Key": key, "Value": target.name} for key in (TARGET_TAG, CLUSTER_TAG)],
        "EnableManagedSpotTraining": target.is_spot,
        "EnableNetworkIsolation": False,
        "EnableInterContainerTrafficEncryption": False,
        "CheckpointConfig": {"S3Uri": kept, "LocalPath": CHECKPOINTS},
        "InputDataConfig": [_channel(name, url) for name, url in script.channels.items()],
    }


def _channel(name: str, url: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": url, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, "InputMode": "File"}


def _key(name: str, key: str | None) -> dict[str, str]:
    return {name: key} if key else {}


def _problems(script: Script) -> Iterator[Problem]:
    if not _NAME.fullmatch(script.name):
        message = f"is {script.name!r}, and must be at most {LONGEST_NAME} letters, digits and single hyphens"
        yield Problem(where="name", message=message)
    if script.nodes < 1:
        yield Problem(where="nodes", message=f"is {script.nodes}, and must be 1 or more")
    for name, url in script.channels.items():
        if not url.startswith("s3://"):
            message, hint = f"is {url!r}, and must be a URL of S3", "upload it: slipway cluster upload"
            yield Problem(where=f"channels[{name!r}]", message=message, hint=hint)
    if script.smp and not script.image:
        message = "is None, and the cluster's image lacks SMP"
        hint = f"name one that has it: for SMP v2 {_SMP_IMAGE}, for v1 a container of AWS with PyTorch 2.0"
        yield Problem(where="image", message=message, hint=hint)


# Shows the log of a training job in a notebook until the job ends; after Ctrl-C, says that it goes on.


def print_log(name: str, target: SageMakerTarget) -> None:
    """Print the job's states and all lines of its log until it ends, as `slipway logs --follow` does."""
    found = refresh(name, target)
    for line in follow_lines(found, Wanted(), to_end=True, seen=new_words(print)):
        print(mark_of(line, found.run.nodes) + line.text, flush=True)


@contextmanager
def waiting_for(training: SdkTraining, name: str) -> Iterator[None]:
    """Tell the user at Ctrl-C how to stop the job, which goes on and is billed."""
    try:
        yield
    except KeyboardInterrupt:
        by_name = f"aws sagemaker stop-training-job --region {training.region} --training-job-name {name}"
        command = f"slipway cancel {name}" if training.is_ours else by_name
        print(f"{name} keeps running; end it: {command}", flush=True)
        raise
