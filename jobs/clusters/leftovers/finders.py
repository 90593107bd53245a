"""Finds what destroyed clusters and bakeries left behind: the cost of each item, and what its deletion loses.

Another kind is a LeftoverKind, and a function and a row of FINDERS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, reader
from slipway.jobs.clusters.images.baked import describe, find_images
from slipway.jobs.words.catalogue.instances import find_instance_type
from slipway.jobs.words.catalogue.regional import HOURS_PER_MONTH, find_fee, lustre_item, price_in
from slipway.jobs.words.images.amis import IMAGE_TAG
from slipway.jobs.words.names import CLUSTER_TAG

GIB = 1024**3


class LeftoverKind(StrEnum):
    """Name the kinds in the order of their removal: encrypted things go before their keys."""

    MACHINE = "EC2 instance"
    TRAINING_JOB = "training job"
    AMI = "AMI"
    BUCKET = "bucket"
    FILE_SYSTEM = "EFS"
    BACKUP = "AWS Backup"
    LUSTRE = "FSx for Lustre"
    REPOSITORY = "ECR repository"
    LOG_GROUP = "log group"
    KEY = "KMS key"


# No stack holds these; a stack that still stands ends them.
RUNNING = frozenset({LeftoverKind.MACHINE, LeftoverKind.TRAINING_JOB})
# AWS deletes these by itself; their vault refuses any earlier deletion.
LASTING = frozenset({LeftoverKind.BACKUP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Describe a thing that still exists and belongs to no stack."""

    owner: str  # the cluster or the machine image that made it
    kind: LeftoverKind
    id: str
    gib: float | None  # None: it has no size, or its size is unknown
    usd_per_month: float | None
    holds: str  # what its deletion loses


# Finds what carries a cluster's tag, one function for each service, and yields things of living clusters,
# too: removal.py leaves out what a stack owns. EFS user guide, "Automatic backups": an account has one vault
# for them in each region, which keeps each for 35 days.
_VAULT = "aws/efs/automatic-backup-vault"
_MOST_PAGES = 20  # of a bucket's versions, 1000 a page: further ones are not counted

Finder = Callable[[str], Iterator[Leftover]]


class SilentService(Exception):
    """A service did not say what exists."""

    def __init__(self, refusal: Unanswered) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def find_machines(region: str) -> Iterator[Leftover]:
    """Find nodes, and machines that become an image, that outlived what started them."""
    filters = [
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]},
        {"Name": "tag-key", "Values": [CLUSTER_TAG, IMAGE_TAG]},
    ]
    asked = ask_all(reader("ec2", region), "DescribeInstances", "Reservations", Filters=filters)
    for each in (machine for group in _told(asked) for machine in group["Instances"]):
        tags = {tag["Key"]: tag["Value"] for tag in each["Tags"]}
        yield Leftover(
            owner=tags.get(CLUSTER_TAG) or tags[IMAGE_TAG],
            kind=LeftoverKind.MACHINE,
            id=each["InstanceId"],
            gib=None,
            usd_per_month=_a_month(each["InstanceType"], 1, region),
            holds=f"{each['InstanceType']}, {each['State']['Name']}, and its disks",
        )


def find_training_jobs(region: str) -> Iterator[Leftover]:
    """Find jobs that run on: destroying a cluster deletes their role, but not SageMaker's instances."""
    sagemaker = reader("sagemaker", region)
    asked = ask_all(sagemaker, "ListTrainingJobs", "TrainingJobSummaries", StatusEquals="InProgress")
    for job in _told(asked):
        tags = _told(ask_all(sagemaker, "ListTags", "Tags", ResourceArn=job["TrainingJobArn"]))
        if owner := _owner(tags):
            name = job["TrainingJobName"]
            made = _told(ask(sagemaker, "DescribeTrainingJob", TrainingJobName=name))["ResourceConfig"]
            yield Leftover(
                owner=owner,
                kind=LeftoverKind.TRAINING_JOB,
                id=name,
                gib=None,
                usd_per_month=_a_month(made["InstanceType"], made["InstanceCount"], region),
                holds=f"{made['InstanceCount']} × {made['InstanceType']}, and what was not saved",
            )


def _a_month(type_name: str, count: int, region: str) -> float | None:
    type_ = find_instance_type(type_name)
    price = price_in(type_, region) if type_ else None
    return price.usd_per_hour * count * HOURS_PER_MONTH if price else None


def find_buckets(region: str) -> Iterator[Leftover]:
    s3 = reader("s3", region)
    for bucket in _told(ask(s3, "ListBuckets"))["Buckets"]:
        name = bucket["Name"]
        tagged = ask(s3, "GetBucketTagging", Bucket=name)  # refused for untagged and foreign buckets
        owner = None if isinstance(tagged, Unanswered) else _owner(tagged["TagSet"])
        if not owner:
            continue
        place = _told(ask(s3, "GetBucketLocation", Bucket=name)).get("LocationConstraint")
        if (place or "us-east-1") != region:
            continue
        pages = s3.get_paginator("list_object_versions").paginate(Bucket=name)
        sizes = [each["Size"] for page in islice(pages, _MOST_PAGES) for each in page.get("Versions", [])]
        yield Leftover(
            owner=owner,
            kind=LeftoverKind.BUCKET,
            id=name,
            gib=_gib(sum(sizes)),
            usd_per_month=_fee("s3", region, _gib(sum(sizes))),
            holds=f"{len(sizes)} versions of objects",
        )


def find_file_systems(region: str) -> Iterator[Leftover]:
    for file_system in _told(ask_all(reader("efs", region), "DescribeFileSystems", "FileSystems")):
        if owner := _owner(file_system.get("Tags", ())):
            gib = _gib(file_system.get("SizeInBytes", {}).get("Value"))
            yield Leftover(
                owner=owner,
                kind=LeftoverKind.FILE_SYSTEM,
                id=file_system["FileSystemId"],
                gib=gib,
                usd_per_month=_fee("efs", region, gib),
                holds="checkpoints and data that jobs shared; its automatic backups stay",
            )


def find_backups(region: str) -> Iterator[Leftover]:
    """Find automatic backups of EFS, which outlive their file system; AWS refuses questions to no vault."""
    backup = reader("backup", region)
    vaults = _told(ask_all(backup, "ListBackupVaults", "BackupVaultList"))
    if _VAULT not in (vault["BackupVaultName"] for vault in vaults):
        return
    asked = ask_all(backup, "ListRecoveryPointsByBackupVault", "RecoveryPoints", BackupVaultName=_VAULT)
    for recovery_point in _told(asked):
        tags = _told(ask(backup, "ListTags", ResourceArn=recovery_point["RecoveryPointArn"]))["Tags"]
        if owner := tags.get(CLUSTER_TAG):
            ends = recovery_point.get("CalculatedLifecycle", {}).get("DeleteAt")
            source = recovery_point["ResourceArn"].rpartition("/")[2]
            gib = _gib(recovery_point.get("BackupSizeInBytes"))
            yield Leftover(
                owner=owner,
                kind=LeftoverKind.BACKUP,
                id=recovery_point["RecoveryPointArn"],
                gib=gib,
                usd_per_month=_fee("efs-backup", region, gib),
                holds=f"a copy of {source}; AWS deletes it {f'on {ends:%Y-%m-%d}' if ends else 'by itself'}",
            )


def find_lustre(region: str) -> Iterator[Leftover]:
    for file_system in _told(ask_all(reader("fsx", region), "DescribeFileSystems", "FileSystems")):
        if owner := _owner(file_system.get("Tags", ())):
            speed = file_system.get("LustreConfiguration", {}).get("PerUnitStorageThroughput", "")
            yield Leftover(
                owner=owner,
                kind=LeftoverKind.LUSTRE,
                id=file_system["FileSystemId"],
                gib=file_system["StorageCapacity"],
                usd_per_month=_fee(lustre_item(speed), region, file_system["StorageCapacity"]),
                holds="checkpoints and data that jobs shared",
            )


def find_repositories(region: str) -> Iterator[Leftover]:
    ecr = reader("ecr", region)
    for repository in _told(ask_all(ecr, "DescribeRepositories", "repositories")):
        tags = _told(ask(ecr, "ListTagsForResource", resourceArn=repository["repositoryArn"]))["tags"]
        if owner := _owner(tags):
            name = repository["repositoryName"]
            images = _told(ask_all(ecr, "DescribeImages", "imageDetails", repositoryName=name))
            gib = _gib(sum(image.get("imageSizeInBytes", 0) for image in images))
            yield Leftover(
                owner=owner,
                kind=LeftoverKind.REPOSITORY,
                id=name,
                gib=gib,
                usd_per_month=_fee("ecr", region, gib),
                holds=f"{len(images)} container images",
            )


def find_log_groups(region: str) -> Iterator[Leftover]:
    logs = reader("logs", region)
    for group in _told(ask_all(logs, "DescribeLogGroups", "logGroups")):
        arn = group["arn"].removesuffix(":*")
        tags = _told(ask(logs, "ListTagsForResource", resourceArn=arn))["tags"]
        if owner := tags.get(CLUSTER_TAG):
            gib = _gib(group.get("storedBytes"))
            yield Leftover(
                owner=owner,
                kind=LeftoverKind.LOG_GROUP,
                id=group["logGroupName"],
                gib=gib,
                usd_per_month=_fee("logs", region, gib),
                holds="logs of jobs or of the network",
            )


def find_keys(region: str) -> Iterator[Leftover]:
    """Find the keys that are billed; a key that waits for its deletion is free, and is left alone."""
    kms = reader("kms", region)
    for each in _told(ask_all(kms, "ListKeys", "Keys")):
        key = _told(ask(kms, "DescribeKey", KeyId=each["KeyId"]))["KeyMetadata"]
        if key["KeyManager"] != "CUSTOMER" or key["KeyState"] not in ("Enabled", "Disabled"):
            continue
        tags = ask_all(kms, "ListResourceTags", "Tags", KeyId=each["KeyId"])  # another owner's key may refuse
        owner = None if isinstance(tags, Unanswered) else _owner(tags, "TagKey", "TagValue")
        if owner:
            yield Leftover(
                owner=owner,
                kind=LeftoverKind.KEY,
                id=each["KeyId"],
                gib=None,
                usd_per_month=_fee("kms-key", region, 1),
                holds="whatever it encrypted, copies and backups included",
            )


def find_amis(region: str) -> Iterator[Leftover]:
    """Find AMIs whose bakery is gone, and which no launch template or instance uses."""
    facts = find_images(region)
    baking = {bakery.name for bakery in facts.bakeries}
    sizes = {
        image["ImageId"]: sum(
            int(mapping.get("Ebs", {}).get("VolumeSize", 0))
            for mapping in image.get("BlockDeviceMappings", ())
        )
        for image in facts.amis
    }
    for ami in describe(facts, datetime.now(UTC)):
        if ami.image not in baking and not ami.used_by and ami.state != "missing":
            yield Leftover(
                owner=ami.image,
                kind=LeftoverKind.AMI,
                id=ami.ami_id,
                gib=sizes[ami.ami_id],
                usd_per_month=_fee("ebs-snapshot", region, sizes[ami.ami_id]),
                holds="a machine image and its snapshots, priced as if its volumes were full",
            )


def _gib(stored_bytes: float | None) -> float | None:
    return None if stored_bytes is None else stored_bytes / GIB


def _fee(name: str, region: str, amount: float | None) -> float | None:
    """Return the dollars a month for so many GiB, or keys."""
    fee = find_fee(name, region)
    price = fee.usd_per_month if fee else None
    return None if price is None or amount is None else price * amount


def _told(answer: Any) -> Any:
    if isinstance(answer, Unanswered):
        raise SilentService(answer)
    return answer


def _owner(tags: Iterable[Mapping[str, str]], key: str = "Key", value: str = "Value") -> str | None:
    return next((tag[value] for tag in tags if tag[key] == CLUSTER_TAG), None)


FINDERS: Mapping[LeftoverKind, Finder] = {
    LeftoverKind.MACHINE: find_machines,
    LeftoverKind.TRAINING_JOB: find_training_jobs,
    LeftoverKind.AMI: find_amis,
    LeftoverKind.BUCKET: find_buckets,
    LeftoverKind.FILE_SYSTEM: find_file_systems,
    LeftoverKind.BACKUP: find_backups,
    LeftoverKind.LUSTRE: find_lustre,
    LeftoverKind.REPOSITORY: find_repositories,
    LeftoverKind.LOG_GROUP: find_log_groups,
    LeftoverKind.KEY: find_keys,
}
