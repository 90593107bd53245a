"""Where one training job reads and writes: its channels, its checkpoints, its charts.

SageMaker copies /opt/ml/checkpoints of each instance to the bucket and back. Several instances share a file
system, if the cluster has one; else ranks write their checkpoints to the bucket themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from slipway.jobs.core.errors import Problem
from slipway.jobs.core.job import InvalidJob, Job
from slipway.jobs.core.sagemaker.places import (
    CHANNELS,
    CHECKPOINTS,
    TENSORBOARD,
    channel_folder,
    job_url,
)
from slipway.jobs.core.targets import SageMakerTarget

DATA_CHANNEL = "data"
_S3 = "s3://"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """Holds the job as its container sees it, and what SageMaker is told to bring and take away."""

    job: Job
    channels: Sequence[Mapping[str, Any]]
    checkpoint_config: Mapping[str, str]
    tensorboard_config: Mapping[str, str]


def decide_files(job: Job, target: SageMakerTarget, name: str, inputs: tuple[str, ...]) -> JobFiles:
    """Decide it; `inputs` are settings whose s3:// URLs become channels, as --data does."""
    given = {setting: job.settings[setting] for setting in inputs if setting in job.settings}
    brought = {setting: url for setting, url in given.items() if url.startswith(_S3)}
    if job.data and job.data.startswith(_S3):
        brought[DATA_CHANNEL] = _only_once(brought, job.data)
    kept = _kept_at(job, target, name)
    places = {setting: channel_place(setting, url) for setting, url in brought.items()}
    return JobFiles(
        job=replace(
            job,
            settings={**job.settings, **{key: places[key] for key in given if key in places}},
            data=places[DATA_CHANNEL] if job.data and job.data.startswith(_S3) else job.data,
            checkpoints=CHECKPOINTS if kept else _shared_checkpoints(job, target, name),
        ),
        channels=[*(_s3_channel(setting, url) for setting, url in brought.items()), *_shared_files(target)],
        checkpoint_config={"S3Uri": kept, "LocalPath": CHECKPOINTS} if kept else {},
        tensorboard_config=_tensorboard(target, name),
    )


def channel_place(channel: str, url: str) -> str:
    """Return where a container finds it: a channel's folder, or the file in it if the URL names one."""
    last = url.rpartition("/")[2]
    return f"{channel_folder(channel)}/{last}" if "." in last else channel_folder(channel)


def _only_once(brought: Mapping[str, str], data: str) -> str:
    if brought.get(DATA_CHANNEL, data) != data:
        raise InvalidJob(
            [
                Problem(
                    where="--data",
                    message=f"is {data}, and --set {DATA_CHANNEL} is {brought[DATA_CHANNEL]}; both would be "
                    f"channel '{DATA_CHANNEL}'",
                    hint="give one of them",
                )
            ]
        )
    return data


def _s3_channel(channel: str, url: str) -> dict[str, Any]:
    is_file = "." in url.rpartition("/")[2]
    source = {
        "S3DataType": "S3Prefix",
        "S3Uri": url if is_file else f"{url.rstrip('/')}/",  # or sst2 would bring sst2-old as well
        "S3DataDistributionType": "FullyReplicated",
    }
    return {"ChannelName": channel, "DataSource": {"S3DataSource": source}, "InputMode": "File"}


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
    """Return the URL that SageMaker copies /opt/ml/checkpoints to; None where ranks write elsewhere."""
    if job.nodes > 1:
        return None
    if job.checkpoints is None:
        return None if target.file_system_mount else job_url(target.bucket, name, "checkpoints")
    return job.checkpoints if job.checkpoints.startswith(_S3) else None


def _shared_checkpoints(job: Job, target: SageMakerTarget, name: str) -> str | None:
    if job.checkpoints or target.file_system_mount:
        return job.checkpoints
    return job_url(target.bucket, name, "checkpoints")


def _tensorboard(target: SageMakerTarget, name: str) -> dict[str, str]:
    if target.file_system_mount:
        return {}
    return {"LocalPath": TENSORBOARD, "S3OutputPath": job_url(target.bucket, name, "tensorboard")}
