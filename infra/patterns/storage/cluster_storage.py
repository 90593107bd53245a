"""What the storage stack of a cluster makes for the cluster's other stacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.storage.buckets import DataBucket, DataBucketProps
from slipway.infra.patterns.storage.encryption import use_key
from slipway.infra.patterns.storage.file_systems import SharedFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStorage:
    bucket: s3.IBucket
    key: kms.IKey
    files: SharedFiles

    @property
    def object_key(self) -> kms.IKey:
        """Return the key by which who writes an object may encrypt it."""
        return self.bucket.encryption_key or self.key

    def use_keys(self) -> iam.PolicyStatement:
        """Allow reading and writing what the cluster's data is encrypted with."""
        return use_key(*{key.key_arn: key for key in (self.key, self.object_key)}.values())


# Takes the cluster's key, and makes its bucket or returns one that is its owner's.
BucketOf = Callable[[Construct, Cluster, kms.IKey], s3.IBucket]


def make_bucket(scope: Construct, cluster: Cluster, key: kms.IKey) -> s3.IBucket:
    """Make the bucket that holds what jobs read and write."""
    props = DataBucketProps(key=key, log_retention_days=cluster.log_retention_days, keep=cluster.keep_data)
    return DataBucket(scope, "Data", props=props).bucket
