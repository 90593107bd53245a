"""Finds leftovers that no stack owns, and removes them, one function for each kind.

Each removal can be repeated after an interruption.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slipway.jobs.cloud.aws import Unanswered, allow, ask_all, client, reader
from slipway.jobs.clusters.leftovers.finders import FINDERS, RUNNING, Leftover, LeftoverKind, SilentService
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.amis import AMIS, bakery_stack_name
from slipway.jobs.words.names import stack_name

_WAIT_SECONDS = 300.0
_POLL_SECONDS = 2.0
# The shortest that KMS allows; until then the deletion can be cancelled, and nothing is billed.
KEY_DAYS = 7
_BATCH = 1000  # objects in one request, at most

Remover = Callable[[Leftover, str], None]


def remove(leftover: Leftover, region: str) -> None:
    REMOVERS[leftover.kind](leftover, region)


def _machine(leftover: Leftover, region: str) -> None:
    client("ec2", region).terminate_instances(InstanceIds=[leftover.id])


def _training_job(leftover: Leftover, region: str) -> None:
    client("sagemaker", region).stop_training_job(TrainingJobName=leftover.id)


def _bucket(leftover: Leftover, region: str) -> None:
    s3, name = client("s3", region), leftover.id
    for page in (
        reader("s3", region)
        .get_paginator("list_object_versions")
        .paginate(Bucket=name, PaginationConfig={"PageSize": _BATCH})
    ):
        found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        objects = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
        if objects:
            answer = s3.delete_objects(Bucket=name, Delete={"Objects": objects, "Quiet": True})
            if answer.get("Errors"):
                first = answer["Errors"][0]
                raise SlipwayError(
                    f"S3 did not delete {first['Key']!r} of {name}: {first['Code']}, {first['Message']}",
                    hint=allow("s3:DeleteObjectVersion", "leftovers"),
                )
    s3.delete_bucket(Bucket=name)


def _file_system(leftover: Leftover, region: str) -> None:
    """Delete the mount targets first: EFS refuses to delete a file system that has any."""
    efs, reading, name = client("efs", region), reader("efs", region), leftover.id
    for target in reading.describe_mount_targets(FileSystemId=name)["MountTargets"]:
        if target["LifeCycleState"] not in ("deleting", "deleted"):
            efs.delete_mount_target(MountTargetId=target["MountTargetId"])
    end = time.monotonic() + _WAIT_SECONDS
    while reading.describe_mount_targets(FileSystemId=name)["MountTargets"]:
        if time.monotonic() > end:
            raise SlipwayError(
                f"the mount targets of {name} are still there after {_WAIT_SECONDS:.0f} s",
                hint="run the same command again",
            )
        time.sleep(_POLL_SECONDS)
    efs.delete_file_system(FileSystemId=name)


def _backup(leftover: Leftover, _region: str) -> None:
    raise SlipwayError(
        f"backup {leftover.id} cannot be deleted: {leftover.holds}",
        hint="its vault refuses it to everybody, until somebody changes the vault's policy in AWS Backup",
    )


def _lustre(leftover: Leftover, region: str) -> None:
    client("fsx", region).delete_file_system(FileSystemId=leftover.id)


def _repository(leftover: Leftover, region: str) -> None:
    client("ecr", region).delete_repository(repositoryName=leftover.id, force=True)


def _log_group(leftover: Leftover, region: str) -> None:
    client("logs", region).delete_log_group(logGroupName=leftover.id)


def _key(leftover: Leftover, region: str) -> None:
    client("kms", region).schedule_key_deletion(KeyId=leftover.id, PendingWindowInDays=KEY_DAYS)


def _ami(leftover: Leftover, region: str) -> None:
    """Deregister the AMI, and delete its snapshots and the parameters that name it."""
    ec2, reading, ssm = client("ec2", region), reader("ec2", region), client("ssm", region)
    images = reading.describe_images(ImageIds=[leftover.id])["Images"]
    ids = [disk["Ebs"].get("SnapshotId") for image in images for disk in image.get("BlockDeviceMappings", ())]
    ec2.deregister_image(ImageId=leftover.id)
    for snapshot in filter(None, ids):
        ec2.delete_snapshot(SnapshotId=snapshot)
    pages = (
        reader("ssm", region)
        .get_paginator("get_parameters_by_path")
        .paginate(Path=f"{AMIS}/{leftover.owner}", Recursive=True)
    )
    found = {parameter["Name"]: parameter["Value"] for page in pages for parameter in page["Parameters"]}
    for parameter in list(found) if found.get(f"{AMIS}/{leftover.owner}/id") == leftover.id else []:
        ssm.delete_parameter(Name=parameter)


REMOVERS: Mapping[LeftoverKind, Remover] = {
    LeftoverKind.MACHINE: _machine,
    LeftoverKind.TRAINING_JOB: _training_job,
    LeftoverKind.AMI: _ami,
    LeftoverKind.BUCKET: _bucket,
    LeftoverKind.FILE_SYSTEM: _file_system,
    LeftoverKind.BACKUP: _backup,
    LeftoverKind.LUSTRE: _lustre,
    LeftoverKind.REPOSITORY: _repository,
    LeftoverKind.LOG_GROUP: _log_group,
    LeftoverKind.KEY: _key,
}


# Finds what destroyed clusters left in one region: everything with our tag that no existing stack owns.


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLeftovers:
    """Hold what was found, and the kinds about which AWS did not answer."""

    leftovers: tuple[Leftover, ...]
    unanswered: tuple[tuple[LeftoverKind, Unanswered], ...]


def find_leftovers(region: str) -> FoundLeftovers:
    """Search for every kind; stop at a stack that cannot be read, since its resources must not be removed."""
    found: list[Leftover] = []
    unanswered: list[tuple[LeftoverKind, Unanswered]] = []
    for kind in LeftoverKind:
        try:
            found += FINDERS[kind](region)
        except SilentService as silence:
            unanswered.append((kind, silence.refusal))
    stacks: list[str] = []
    if found:
        standing = _answered(ask_all(reader("cloudformation", region), "DescribeStacks", "Stacks"))
        owners = {each.owner for each in found}
        makers = {*owners, *map(bakery_stack_name, owners)}
        names = [each["StackName"] for each in standing]
        stacks = [
            name for name in names if any(name == each or name.startswith(f"{each}-") for each in makers)
        ]
    owned = _owned(stacks, region)
    left = []
    for each in found:
        started_by = {stack_name(each.owner), bakery_stack_name(each.owner)}
        # A stack that started this and still stands will end it.
        if each.id not in owned and not (each.kind in RUNNING and started_by.intersection(stacks)):
            left.append(each)
    return FoundLeftovers(leftovers=tuple(left), unanswered=tuple(unanswered))


def _owned(ours: Sequence[str], region: str) -> frozenset[str]:
    """Return the physical ids of all resources in these stacks."""
    cloudformation = reader("cloudformation", region)
    resources = [
        each
        for stack in ours
        for each in _answered(
            ask_all(cloudformation, "ListStackResources", "StackResourceSummaries", StackName=stack)
        )
    ]
    return frozenset(
        resource.get("PhysicalResourceId", "")
        for resource in resources
        if resource["ResourceStatus"] != "DELETE_COMPLETE"
    )


def _answered(answer: object) -> list[dict[str, str]]:
    if isinstance(answer, Unanswered):
        raise SlipwayError(
            f"{answer.words}; without it nobody can tell what a stack still owns",
            hint=answer.remedy("leftovers", otherwise="run the same command again"),
        )
    assert isinstance(answer, list), "ask_all gives a list or an Unanswered"
    return answer
