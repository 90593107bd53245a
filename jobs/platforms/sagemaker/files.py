"""Decides where one training job reads and writes: its channels, its checkpoints, its charts.

SageMaker copies /opt/ml/checkpoints of each instance to the bucket, and all of it to each instance of the
next attempt. Several instances share a file system, if the cluster has one; otherwise ranks write checkpoints
to the bucket themselves, unless a user's own command asks for that folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from slipway.jobs.words.job import Job
from slipway.jobs.words.sagemaker import (
    CHANNELS,
    CHECKPOINTS,
    TENSORBOARD,
    channel_folder,
    job_url,
)
from slipway.jobs.words.targets import SageMakerTarget

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


def decide_files(job: Job, target: SageMakerTarget, name: str, files: FileSettings) -> JobFiles:
    code = _in_s3(job, files.code)
    brought = _brought(job, files.inputs)
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
        channels=[
            *(_s3_channel(channel, url) for channel, url in {**brought, **code}.items()),
            *_shared_files(target),
        ],
        checkpoint_config={"S3Uri": kept, "LocalPath": CHECKPOINTS} if kept else {},
        tensorboard_config={} if target.file_system_mount else charts,
    )


def _brought(job: Job, inputs: tuple[str, ...]) -> dict[str, str]:
    """Return the S3 URLs that become channels: --data, or else settings; a job has one data folder."""
    if job.data:
        return {DATA_CHANNEL: job.data} if job.data.startswith(_S3) else {}
    return _in_s3(job, inputs)


def _in_s3(job: Job, settings: tuple[str, ...]) -> dict[str, str]:
    given = {setting: job.settings.get(setting, "") for setting in settings}
    return {setting: url for setting, url in given.items() if url.startswith(_S3)}


def _place(channel: str, url: str) -> str:
    """Return the path in the folder of all channels: a whole channel, or the file in it."""
    last = url.rpartition("/")[2]
    return f"{channel}/{last}" if "." in last else channel


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
    """Return the URL to which SageMaker copies /opt/ml/checkpoints; None if ranks write elsewhere."""
    own = job_url(target.bucket, name, "checkpoints")
    if job.recipe == OWN_COMMAND and job.checkpoints == CHECKPOINTS:
        return own
    if job.nodes > 1:
        return None
    if job.checkpoints is None:
        return None if target.file_system_mount else own
    return job.checkpoints if job.checkpoints.startswith(_S3) else None
