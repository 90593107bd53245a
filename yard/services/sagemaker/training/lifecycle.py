"""Runs a training job from Starting to its end, on its own thread.

Each launch downloads the data, runs the containers and uploads their checkpoints; another launch follows a
Spot interruption, or a lost instance as often as the job's RetryStrategy says. Messages are SageMaker's own,
as DescribeTrainingJob and the SDK show them.
"""

from __future__ import annotations

import logging
import shutil
import threading
from datetime import UTC, datetime
from typing import Any

from slipway.yard.chaos import conditions
from slipway.yard.errors import ApiError
from slipway.yard.gateway import faults
from slipway.yard.machines import memory, storage
from slipway.yard.machines.settings import real_seconds
from slipway.yard.permissions import keys, roles
from slipway.yard.services.sagemaker.training import buckets, checks, plan, records
from slipway.yard.services.sagemaker.training.buckets import FolderSync, Location, TransferFailed
from slipway.yard.services.sagemaker.training.instances import (
    INTERRUPTED,
    LOST,
    STOPPED,
    TIMED_OUT,
    InstanceLog,
    Instances,
    LaunchEnding,
)
from slipway.yard.services.sagemaker.training.plan import TrainingLaunch
from slipway.yard.services.sagemaker.training.records import TrainingJob, enter

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 0.5  # between polls for capacity
DAY_S = 86400
LONGEST_REASON = 1024
NO_CAPACITY = "Insufficient capacity error from EC2 while launching instances, retrying!"
INTERNAL_ERROR = "InternalServerError: We encountered an internal error. Please try again."


class JobFailed(Exception):
    """Ends the job as failed; the message is its FailureReason."""


class JobStopped(Exception):
    """Ends a job that was stopped before it had processes, or waited too long for Spot instances."""


def start(job: TrainingJob) -> None:
    enter(job, "Starting", "Starting the training job")
    threading.Thread(target=_run, args=(job,), name=f"training {job.name}", daemon=True).start()


def _run(job: TrainingJob) -> None:
    try:
        while cause := _launch(job):
            if cause == INTERRUPTED:
                enter(job, "Interrupted", "Training job interrupted: its instances were taken back")
                continue
            # An internal error, after which the job restarts if a retry is left.
            if job.retries >= int((job.given.get("RetryStrategy") or {}).get("MaximumRetryAttempts", 0)):
                raise JobFailed(INTERNAL_ERROR)
            job.retries += 1
            enter(job, "Starting", "Restarting the training job")
    except JobFailed as reason:
        _fail(job, str(reason))
    except JobStopped as reason:
        records.end(job, "Stopped", str(reason), "Training job stopped")
    except Exception as error:  # a bug of the yard ends the job, and no thread in silence
        log.exception("training job %s crashed", job.name)
        _fail(job, f"InternalServerError: We encountered an internal error: {type(error).__name__}: {error}")
    finally:
        memory.promises.release(job.arn)


def _launch(job: TrainingJob) -> str:
    """Run the job once; return INTERRUPTED or LOST if it should run again."""
    _await_capacity(job)
    began = datetime.now(UTC)
    with records.changed:
        job.launches += 1
        job.started = job.started or began
    folder = storage.attempt_folder(f"training-{job.region}-{job.name}", job.launches)
    try:
        session = roles.assume(job.given["RoleArn"], checks.SERVICE, "SageMaker")
    except ApiError as error:
        raise JobFailed(f"ClientError: {error.message}") from error
    subnets = (job.given.get("VpcConfig") or {}).get("Subnets") or [""]
    launch = TrainingLaunch(job=job, session=roles.in_vpc_of(session, subnets[0], job.region), folder=folder)
    try:
        return _carry_out(launch)
    finally:
        with records.changed:
            job.billable_seconds += records.since(began)
        memory.promises.release(job.arn)
        shutil.rmtree(folder, ignore_errors=True)


def _carry_out(launch: TrainingLaunch) -> str:
    job, client = launch.job, keys.client(launch.session, "s3", launch.job.region)
    plan.prepare(launch)
    _download(launch, client)
    enter(job, "Training", "Downloading the training image")
    image = launch.job.given["AlgorithmSpecification"]["TrainingImage"]
    if words := roles.refused(launch.session, launch.job.region, plan.pulls(image, launch.job.region)):
        raise JobFailed(f"ClientError: Cannot pull the training image {image}: {words}")
    logs = {index: InstanceLog(job, host, launch.session) for index, host in enumerate(job.hosts)}
    syncs = _syncs(launch, client)
    for sync in syncs:
        sync.start()
    enter(job, "Training", "Training image download completed. Training in progress.")
    ending = LaunchEnding(cause=LOST)
    try:
        longest_s = (job.given.get("StoppingCondition") or {}).get("MaxRuntimeInSeconds") or DAY_S
        ending = Instances(launch, logs).run(max(0.0, longest_s - job.billable_seconds))
    finally:
        for sync in syncs:
            # A lost instance's last files are gone with its disk, and SageMaker does not copy those of the
            # others.
            sync.finish(is_complete=ending.cause != LOST)
    is_unfinished = not ending.is_success(job.instances) and not job.is_stopping
    if is_unfinished and ending.cause in (INTERRUPTED, LOST):
        return ending.cause
    _finish(launch, client, ending)
    return ""


def _await_capacity(job: TrainingJob) -> None:
    """Wait until this machine has enough memory for the job, and EC2 has instances."""
    need = memory.Need(nodes=job.instances, ranks=job.instances)
    longest = (job.given.get("StoppingCondition") or {}).get("MaxWaitTimeInSeconds")
    while True:
        with records.changed:
            if job.is_stopping:
                raise JobStopped("Stopped")
            if longest is not None and records.since(job.created) > real_seconds(longest):
                raise JobStopped("MaxWaitTimeExceeded")
            struck = faults.next_for("ec2", "RunInstances")
            lacks = struck and struck.kind is faults.FaultKind.INSUFFICIENT_CAPACITY
            has_capacity = not lacks and not conditions.lacks_capacity(job.instance_type.removeprefix("ml."))
            if has_capacity and memory.promises.admit(job.arn, need):
                break
            enter(job, "Starting", NO_CAPACITY)
            records.changed.wait(LOOK_AGAIN_S)
    enter(job, "Starting", "Preparing the instances for training")


def _download(launch: TrainingLaunch, client: Any) -> None:
    job = launch.job
    enter(job, "Downloading", "Downloading input data")
    for channel in plan.channels(job):
        source = (channel.get("DataSource") or {}).get("S3DataSource")
        if not source:
            continue
        folders = [path / "input" / "data" / channel["ChannelName"] for path in launch.volumes()]
        for folder in folders:
            folder.mkdir(parents=True)
        if source["S3DataType"] != "S3Prefix":
            raise JobFailed(f"ClientError: the yard reads no S3DataType {source['S3DataType']}; use S3Prefix")
        is_shared_out = source.get("S3DataDistributionType") == "ShardedByS3Key"
        if not _or_fail(buckets.download, client, source["S3Uri"], folders, is_shared_out=is_shared_out):
            raise JobFailed(f"ClientError: Data download failed: No S3 objects found under {source['S3Uri']}")
    if plan.checkpoint_path(job):
        folders = [launch.checkpoints(index) for index in range(job.instances)]
        _or_fail(buckets.download, client, job.given["CheckpointConfig"]["S3Uri"], folders)


def _or_fail(move: Any, *arguments: Any, **more: Any) -> Any:
    try:
        return move(*arguments, **more)
    except TransferFailed as problem:
        raise JobFailed(f"ClientError: {problem}") from problem


def _syncs(launch: TrainingLaunch, client: Any) -> list[FolderSync]:
    """Return the copies during the job: of its checkpoints, and of its charts at the SDK's path."""
    job, every = launch.job, range(launch.job.instances)
    wanted = []
    if plan.checkpoint_path(job):
        wanted.append(
            (job.given["CheckpointConfig"]["S3Uri"], [launch.checkpoints(index) for index in every])
        )
    if charts := job.given.get("TensorBoardOutputConfig"):
        uri = f"{charts['S3OutputPath'].rstrip('/')}/{job.name}/tensorboard-output"
        wanted.append((uri, [launch.charts(index) for index in every]))
    return [FolderSync(client=client, uri=uri, folders=folders) for uri, folders in wanted]


def _finish(launch: TrainingLaunch, client: Any, ending: LaunchEnding) -> None:
    """Upload the job's results, and set its final status."""
    job, failed = launch.job, ending.first_failure
    is_failed = not ending.cause and not ending.is_success(job.instances)
    if not is_failed:
        enter(job, "Uploading", "Uploading generated training model")
    _or_fail(_upload, launch, client, with_model=not is_failed)
    if ending.cause == TIMED_OUT:
        message = "Training job runtime exceeded MaxRuntimeInSeconds provided"
        records.end(job, "Stopped", "MaxRuntimeExceeded", message)
    elif ending.cause == STOPPED or job.is_stopping:
        records.end(job, "Stopped", "Stopped", "Training job stopped")
    elif is_failed:
        index = failed or 0
        code = ending.codes.get(failed or 0, 137)
        file = launch.volume(index) / "output" / "failure"
        said = file.read_text("utf-8", "replace") if file.is_file() else ""
        end = f", exit code: {code}"
        raise JobFailed(f"AlgorithmError: {said}"[: LONGEST_REASON - len(end)] + end)
    else:
        records.end(job, "Completed", "Completed", "Training job completed")


def _upload(launch: TrainingLaunch, client: Any, *, with_model: bool) -> None:
    job, given = launch.job, launch.job.given["OutputDataConfig"]
    place = Location.of(given["S3OutputPath"])
    settings = {}
    if key := given.get("KmsKeyId"):
        settings = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
    made = {"output": [path / "output" / "data" for path in launch.volumes()]}
    if with_model:
        made["model"] = [path / "model" for path in launch.volumes()]
    for name, folders in made.items():
        if name == "output" and not any(any(folder.iterdir()) for folder in folders):
            continue
        if given.get("CompressionType") == "NONE":
            key = place.below(job.name, "output", name)
            for folder in folders:
                buckets.upload(client, folder, Location(bucket=place.bucket, prefix=key), settings)
        else:
            key = place.below(job.name, "output", f"{name}.tar.gz")
            buckets.upload_archive(client, folders, Location(bucket=place.bucket, prefix=key), settings)
        if name == "model":
            job.model_uri = f"s3://{place.bucket}/{key}"


def _fail(job: TrainingJob, reason: str) -> None:
    with records.changed:
        job.failure_reason = reason[:LONGEST_REASON]
        records.end(job, "Failed", "Failed", "Training job failed")
