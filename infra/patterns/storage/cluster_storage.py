"""What the storage stack of a cluster makes for the cluster's other stacks."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from slipway.infra.patterns.storage.file_systems import SharedFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStorage:
    bucket: s3.IBucket
    key: kms.IKey
    files: SharedFiles
