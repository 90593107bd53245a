"""Makes an instance's /opt/ml before the container starts, with the files that SageMaker writes.

Source: developer guide, "How Amazon SageMaker AI provides training information", resourceconfig and the like.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway.yard.services.sagemaker.training.records import TrainingJob

OPT_ML = "/opt/ml"
GROUP = "homogeneousCluster"
INTERFACE = "eth0"
CHECKPOINTS = f"{OPT_ML}/checkpoints"
CHARTS = f"{OPT_ML}/output/tensorboard"
_FOLDERS = ("code", "input/config", "input/data", "model", "output/data", "checkpoints")


def write(job: TrainingJob, host: str, folder: Path) -> None:
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


def charts_path(job: TrainingJob) -> str:
    """Return the path of TensorBoard's charts in the container, which SageMaker copies to S3."""
    return str((job.given.get("TensorBoardOutputConfig") or {}).get("LocalPath") or CHARTS)


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
