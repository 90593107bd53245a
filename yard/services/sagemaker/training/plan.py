"""Decides which processes, files and images a launch has: the plan for batch/isolation/cluster.py."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.jobs.words.installation import install_line
from slipway.yard.chaos import conditions
from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError, not_emulated
from slipway.yard.machines import storage
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.machines.settings import STAND_IN, interpreter
from slipway.yard.permissions import keys
from slipway.yard.permissions.calls.asked import ActionNeed, arn
from slipway.yard.permissions.keys import RoleSession
from slipway.yard.services.batch.attempt_processes import write_plan
from slipway.yard.services.sagemaker.training.records import TrainingJob

SHARED_MEMORY_MIB = 64  # Docker's default
_KEPT = ("HOME", "LANG")
_LUSTRE = "FSxLustre"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLaunch:
    """Holds what all instances of one launch share."""

    job: TrainingJob
    session: RoleSession
    folder: Path

    def volume(self, index: int) -> Path:
        """Return the folder that the instance sees as /opt/ml."""
        return self.folder / f"node-{index}" / "ml"

    def checkpoints(self, index: int) -> Path:
        path = Path(checkpoint_path(self.job))
        if path.is_relative_to(OPT_ML):
            return self.volume(index) / path.relative_to(OPT_ML)
        return self.folder / f"node-{index}" / "checkpoints"

    def charts(self, index: int) -> Path:
        """Return the instance's folder for TensorBoard's charts, which SageMaker copies to S3."""
        path = (self.job.given.get("TensorBoardOutputConfig") or {}).get("LocalPath") or CHARTS
        return self.volume(index) / Path(str(path)).relative_to(OPT_ML)

    def volumes(self) -> list[Path]:
        return [self.volume(index) for index in range(self.job.instances)]


def prepare(launch: TrainingLaunch) -> None:
    """Make the folders of every instance, as SageMaker's agent does before the container."""
    for index, host in enumerate(launch.job.hosts):
        _write_volume(launch.job, host, launch.volume(index))
        programs = launch.folder / f"node-{index}" / "programs"
        programs.mkdir()
        (programs / START).write_text(START_SCRIPT, encoding="utf-8")
        (programs / START).chmod(0o755)
        temporary = launch.folder / f"node-{index}" / "tmp"
        temporary.mkdir()
        temporary.chmod(0o1777)
        if checkpoint_path(launch.job):
            launch.checkpoints(index).mkdir(parents=True, exist_ok=True)
        launch.charts(index).mkdir(parents=True, exist_ok=True)


def write(launch: TrainingLaunch) -> Path:
    """Write the plan; return the file, which batch/isolation/cluster.py reads."""
    names = "".join(f"{_address(index)} {host}\n" for index, host in enumerate(launch.job.hosts))
    hosts = f"127.0.0.1 localhost\n::1 localhost\n{names}"
    nodes = [_node(launch, index, host) for index, host in enumerate(launch.job.hosts)]
    for index in range(launch.job.instances):
        (launch.folder / f"node-{index}" / "hosts").write_text(hosts, encoding="utf-8")
    return write_plan(launch.folder, best_tier(), nodes)


def _node(launch: TrainingLaunch, index: int, host: str) -> dict[str, Any]:
    return {
        "index": index,
        "folder": str(launch.folder / f"node-{index}"),
        "cwd": "/",
        "hostname": host,
        "address": f"{_address(index)}/16",
        "argv": command(launch.job.given["AlgorithmSpecification"]),
        "environment": _environment(launch),
        "mounts": [(str(launch.volume(index)), OPT_ML), *_further_mounts(launch, index)],
        "shared_memory_mib": SHARED_MEMORY_MIB,
        "init": False,  # the command is process 1, so the kernel ignores signals that it does not handle
        "link": conditions.faults_of_links(),
        "launch_seconds": conditions.seconds("launch-delay", "node"),
    }


def _address(index: int) -> str:
    return f"10.0.{index // 200}.{10 + index % 200}"


def _further_mounts(launch: TrainingLaunch, index: int) -> list[tuple[str, str]]:
    """Return the image's programs, file systems of channels, and checkpoints that are not in /opt/ml."""
    found = [(str(launch.folder / f"node-{index}" / "programs"), PROGRAMS)]
    path = checkpoint_path(launch.job)
    if path and not Path(path).is_relative_to(OPT_ML):
        found.append((str(launch.checkpoints(index)), path))
    for channel in channels(launch.job):
        if source := (channel.get("DataSource") or {}).get("FileSystemDataSource"):
            target = f"{OPT_ML}/input/data/{channel['ChannelName']}"
            # The folder of a file system's directory, without Lustre's mount name at its beginning.
            names: Sequence[str] = str(source["DirectoryPath"]).strip("/").split("/")
            below = names[1:] if source["FileSystemType"] == _LUSTRE else names
            found.append((str(storage.file_system(str(source["FileSystemId"]), "/".join(below))), target))
    return found


def _environment(launch: TrainingLaunch) -> dict[str, str]:
    job = launch.job
    programs = [PROGRAMS, str(Path(interpreter()).parent), os.environ.get("PATH", os.defpath)]
    return {
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        "PATH": os.pathsep.join(programs),
        **VARIABLES,
        **(job.given.get("Environment") or {}),
        "TRAINING_JOB_NAME": job.name,
        "TRAINING_JOB_ARN": job.arn,
        "AWS_REGION": job.region,
        **keys.container_variables(launch.session),
        **STAND_IN,
    }


# An instance's /opt/ml before the container starts, with the files that SageMaker writes. Source: developer
# guide, "How Amazon SageMaker AI provides training information", resourceconfig and the like.
OPT_ML = "/opt/ml"
GROUP = "homogeneousCluster"
INTERFACE = "eth0"
CHECKPOINTS = f"{OPT_ML}/checkpoints"
CHARTS = f"{OPT_ML}/output/tensorboard"
_FOLDERS = ("code", "input/config", "input/data", "model", "output/data", "checkpoints")


def _write_volume(job: TrainingJob, host: str, folder: Path) -> None:
    """Make the folder that the instance sees as /opt/ml."""
    for name in _FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    config = folder / "input" / "config"
    documents = {
        "hyperparameters": dict(job.given.get("HyperParameters") or {}),
        "inputdataconfig": {channel["ChannelName"]: _channel(channel, job) for channel in channels(job)},
        "resourceconfig": {
            "current_host": host,
            "current_instance_type": job.instance_type,
            "current_group_name": GROUP,
            "hosts": job.hosts,
            "instance_groups": [
                {"instance_group_name": GROUP, "instance_type": job.instance_type, "hosts": job.hosts}
            ],
            "network_interface_name": INTERFACE,
        },
        "init-config": {"inputMode": job.given["AlgorithmSpecification"]["TrainingInputMode"]},
        "trainingjobconfig": {
            name: value for name, value in job.given.items() if isinstance(value, str | list | dict | bool)
        },
    }
    for name, document in documents.items():
        (config / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")


def channels(job: TrainingJob) -> list[Mapping[str, Any]]:
    return list(job.given.get("InputDataConfig") or ())


def checkpoint_path(job: TrainingJob) -> str:
    """Return the path of checkpoints in the container, which SageMaker copies to S3; "" if there is none."""
    given = job.given.get("CheckpointConfig")
    return str(given.get("LocalPath") or CHECKPOINTS) if given else ""


def _channel(channel: Mapping[str, Any], job: TrainingJob) -> dict[str, Any]:
    """Return a channel as in inputdataconfig.json."""
    whole = job.given["AlgorithmSpecification"]["TrainingInputMode"]
    found = {
        "TrainingInputMode": channel.get("InputMode") or whole,
        "RecordWrapperType": channel.get("RecordWrapperType") or "None",
    }
    if source := (channel.get("DataSource") or {}).get("S3DataSource"):
        found["S3DistributionType"] = source.get("S3DataDistributionType") or "FullyReplicated"
    if kind := channel.get("ContentType"):
        found["ContentType"] = kind
    return found


# Training images that the yard can imitate, and their entry points. No image is ever pulled. AWS's
# PyTorch images start `bash -m start_with_right_hostname.sh train`: bash is process 1, starts the toolkit as
# a child and passes no signals on, so a training script gets no SIGTERM from StopTrainingJob (issue 125 of
# aws/sagemaker-training-toolkit). ContainerEntrypoint replaces all of that by the job's own first process.
TOOLKIT = ("sagemaker_training", "sagemaker_pytorch_container")
# Variables that the Dockerfiles of AWS's PyTorch training images set.
VARIABLES = {
    "SAGEMAKER_TRAINING_MODULE": "sagemaker_pytorch_container.training:main",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_PYTHONS = ("python", "python3")
# Unlike the images' script this does not preload a gethostname(): each instance here has its name already.
PROGRAMS = "/opt/slipway-image"  # a folder in the container, first on its PATH
START = "start_with_right_hostname.sh"
START_SCRIPT = '#!/usr/bin/env bash\nif [ "$1" = train ]; then train; else eval "$@"; fi\n'
_OF_ECR = re.compile(r"(\d{12})\.dkr\.ecr\.([\w-]+)\.amazonaws\.com(?:\.cn)?/([^:@]+)[:@](.+)")
_OF_PYTORCH = re.compile(r"pytorch|smdistributed-modelparallel")
_PULL = ("BatchCheckLayerAvailability", "GetDownloadUrlForLayer", "BatchGetImage")


def refuse_unknown(image: str, region: str) -> None:
    """Raise ApiError for an image that SageMaker could not pull, or that the yard cannot imitate."""
    found = _OF_ECR.fullmatch(image)
    if not found:
        raise ApiError(
            "ValidationException",
            f"Invalid image URI {image}. Please provide a valid Amazon Elastic Container Registry path of "
            "the docker image to run.",
        )
    account, of, repository, _ = found.groups()
    if of != region:
        raise ApiError(
            "ValidationException",
            f"The image {image} is in {of}; a training job takes its image from its own region, {region}.",
        )
    if account != ACCOUNT and not _OF_PYTORCH.search(repository):
        reason = f"it stands in for AWS's PyTorch training images alone, and this is {repository}"
        raise not_emulated("sagemaker", "CreateTrainingJob", reason=reason)
    if missing := [name for name in TOOLKIT if importlib.util.find_spec(name) is None]:
        toolkit = f"AWS's training toolkit ({' and '.join(missing)})"
        reason = f"{toolkit} is not installed: {install_line('toolkit')}"
        raise not_emulated("sagemaker", "CreateTrainingJob", reason=reason)


def command(algorithm: Mapping[str, Any]) -> list[str]:
    """Return the command of the container's first process."""
    arguments: Sequence[str] = algorithm.get("ContainerArguments") or ()
    entry: Sequence[str] = algorithm.get("ContainerEntrypoint") or ()
    if not entry:
        return ["bash", "-m", START, *(arguments or ["train"])]
    first = interpreter() if entry[0] in _PYTHONS else entry[0]
    return [first, *entry[1:], *arguments]


def pulls(image: str, region: str) -> Iterator[ActionNeed]:
    """Yield what the job's role must allow to pull the image."""
    found = _OF_ECR.fullmatch(image)
    assert found, "refuse_unknown() refuses other forms"
    account, _, repository, _ = found.groups()
    resource = arn("ecr", region, f"repository/{repository}", account=account)
    yield ActionNeed(action="ecr:GetAuthorizationToken")
    yield from (ActionNeed(action=f"ecr:{act}", resource=resource) for act in _PULL)
