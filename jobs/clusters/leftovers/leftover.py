"""One thing that a destroyed cluster or bakery kept, what it costs, and what is lost with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slipway.jobs.words.catalogue.regional import find_fee

GIB = 1024**3


class LeftoverKind(StrEnum):
    """Names the kinds in the order in which they are removed: what is encrypted goes before its key."""

    AMI = "AMI"
    BUCKET = "bucket"
    FILE_SYSTEM = "EFS"
    BACKUP = "AWS Backup"
    LUSTRE = "FSx for Lustre"
    REPOSITORY = "ECR repository"
    LOG_GROUP = "log group"
    KEY = "KMS key"


_FEES = {
    LeftoverKind.AMI: "ebs-snapshot",
    LeftoverKind.BUCKET: "s3",
    LeftoverKind.FILE_SYSTEM: "efs",
    LeftoverKind.BACKUP: "efs-backup",
    LeftoverKind.REPOSITORY: "ecr",
    LeftoverKind.LOG_GROUP: "logs",
    LeftoverKind.KEY: "kms-key",
}


# What AWS deletes by itself, and nobody before: its vault refuses it.
LASTING = frozenset({LeftoverKind.BACKUP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Describes what is still there and belongs to no stack."""

    owner: str  # the cluster or the machine image that made it
    kind: LeftoverKind
    id: str
    gib: float | None  # None: it has no size, or nobody knows it
    usd_per_month: float | None
    holds: str  # what is lost with it


def leftover(
    owner: str, kind: LeftoverKind, name: str, *, region: str, holds: str, stored_bytes: float | None
) -> Leftover:
    """Price a thing by what it stores; a key costs the same whatever it encrypts."""
    fee = find_fee(_FEES.get(kind, ""), region)
    gib = None if stored_bytes is None else stored_bytes / GIB
    amount = 1.0 if kind is LeftoverKind.KEY else gib
    price = fee.usd_per_month if fee else None
    return Leftover(
        owner=owner,
        kind=kind,
        id=name,
        gib=None if gib is None else round(gib, 3),
        usd_per_month=None if price is None or amount is None else round(price * amount, 2),
        holds=holds,
    )
