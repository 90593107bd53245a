"""What the network of a region's bakeries makes for each of them."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeryNetwork:
    subnet_id: str  # the only place where machines are started
    security_group_id: str
    log_bucket: s3.IBucket
    log_key: kms.IKey
