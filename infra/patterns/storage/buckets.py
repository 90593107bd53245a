"""A bucket for data: TLS only, encrypted, versioned, never public; if it is kept, its accesses are logged."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.infra.patterns.encryption import removal_policy, use_key
from slipway.infra.patterns.statements import Statement, allow
from slipway.infra.patterns.storage.file_systems import SharedFiles
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import CODE_PREFIX, JOB_PREFIXES, PROJECT_DAYS, PROJECT_PREFIX

# A bucket for logs that AWS services write: TLS only, never public, and everything in it expires.


class LogBucket(Construct):
    """Logs its own accesses, and stays when its stack is deleted: S3 deletes only an empty bucket."""

    def __init__(self, scope: Construct, id: str, *, retention_days: int) -> None:
        super().__init__(scope, id)
        self.bucket = _bucket_for_logs(
            self, "Resource", retention_days, RemovalPolicy.RETAIN, own_accesses="access/"
        )


_TLS = 1.2


class DataBucket(Construct):
    """Keeps its objects when its stack is deleted: emptying it would take a Lambda.

    For the same reason a bucket that is deleted with its stack has no access logs: they keep coming.
    """

    def __init__(
        self, scope: Construct, id: str, *, key: kms.IKey, log_retention_days: int, keep: bool
    ) -> None:
        super().__init__(scope, id)
        logs = None
        if keep:
            logs = _bucket_for_logs(self, "AccessLogs", log_retention_days, RemovalPolicy.RETAIN)
        self.bucket = s3.Bucket(
            self,
            "Resource",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=True,  # or every object read is a KMS call that is billed
            versioned=True,
            enforce_ssl=True,
            minimum_tls_version=_TLS,
            server_access_logs_bucket=logs,
            server_access_logs_prefix="data/" if logs else None,
            lifecycle_rules=list(_DATA_LIFECYCLE),
            removal_policy=removal_policy(keep),
        )


def bucket_statements(
    bucket: s3.IBucket, *, read: tuple[str, ...], write: tuple[str, ...] = ()
) -> tuple[Statement, ...]:
    """Allow listing the bucket, and reading and writing below prefixes such as "images/*"."""
    arn = bucket.bucket_arn
    listing = allow(
        "FindObjects", "s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads", on=arn
    )
    reading = allow(
        "ReadObjects", "s3:GetObject", "s3:GetObjectVersion", on=[f"{arn}/{prefix}" for prefix in read]
    )
    writing = allow(
        "WriteObjects",
        "s3:AbortMultipartUpload",
        "s3:DeleteObject",
        "s3:ListMultipartUploadParts",
        "s3:PutObject",
        on=[f"{arn}/{prefix}" for prefix in write],
    )
    return (listing, reading, writing) if write else (listing, reading)


def _bucket_for_logs(
    scope: Construct, id: str, days: int, removal: RemovalPolicy, *, own_accesses: str | None = None
) -> s3.Bucket:
    """Use S3's own keys: S3 delivers access logs to no bucket that is encrypted with ours."""
    return s3.Bucket(
        scope,
        id,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        encryption=s3.BucketEncryption.S3_MANAGED,
        versioned=True,
        enforce_ssl=True,
        minimum_tls_version=_TLS,
        server_access_logs_prefix=own_accesses,
        lifecycle_rules=[
            s3.LifecycleRule(
                id="Expire",
                expiration=Duration.days(days),
                noncurrent_version_expiration=Duration.days(1),
                abort_incomplete_multipart_upload_after=Duration.days(1),
            )
        ],
        removal_policy=removal,
    )


# Checkpoints are replaced all the time: an overwritten one stays a month, an abandoned upload a week.
_DATA_LIFECYCLE = (
    s3.LifecycleRule(
        id="AbortUploads",
        abort_incomplete_multipart_upload_after=Duration.days(7),
    ),
    s3.LifecycleRule(
        id="ExpireOldVersions",
        noncurrent_version_expiration=Duration.days(30),
        expired_object_delete_marker=True,
    ),
    s3.LifecycleRule(
        id="ExpireBuildSources",
        prefix="builds/",
        expiration=Duration.days(30),
    ),
    s3.LifecycleRule(
        id="ExpireProjects",
        prefix=PROJECT_PREFIX,
        expiration=Duration.days(PROJECT_DAYS),
    ),
)


# The storage that a cluster's storage stack makes for the cluster's other stacks.


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStorage:
    bucket: s3.IBucket
    key: kms.IKey
    files: SharedFiles

    @property
    def object_key(self) -> kms.IKey:
        """Return the key with which writers of an object encrypt it."""
        return self.bucket.encryption_key or self.key

    def use_keys(self) -> Statement:
        """Allow reading and writing what the cluster's data is encrypted with."""
        return use_key(*{key.key_arn: key for key in (self.key, self.object_key)}.values())


def job_data(storage: ClusterStorage) -> tuple[Statement, ...]:
    """Let a job read and write data, and only read what users send; sources of images are elsewhere."""
    own = tuple(f"{prefix}*" for prefix in JOB_PREFIXES)
    read = (*own, f"{PROJECT_PREFIX}*", f"{CODE_PREFIX}*")
    return *bucket_statements(storage.bucket, read=read, write=own), storage.use_keys()


# Makes the cluster's bucket with its key, or returns one that is its owner's.
BucketOf = Callable[[Construct, Cluster, kms.IKey], s3.IBucket]


def make_bucket(scope: Construct, cluster: Cluster, key: kms.IKey) -> s3.IBucket:
    """Make the bucket that holds what jobs read and write."""
    return DataBucket(
        scope, "Data", key=key, log_retention_days=cluster.log_retention_days, keep=cluster.keep_data
    ).bucket


# Checks a bucket that is its owner's; nothing of an imported one can be seen here.
_ONLY_BY_TLS = "aws:SecureTransport"
_BLOCKS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")


def given_bucket(_scope: Construct, cluster: Cluster, _key: kms.IKey, *, bucket: s3.IBucket) -> s3.IBucket:
    """Return the bucket; refuse one of the same app that admits the public, or requests without TLS."""
    resource = bucket.node.default_child
    if not isinstance(resource, s3.CfnBucket):
        return bucket
    stack = Stack.of(bucket)
    policy = json.dumps(stack.resolve(bucket.policy.document)) if bucket.policy else ""
    if _ONLY_BY_TLS not in policy:
        raise SlipwayError(
            f"the bucket of cluster '{cluster.name}', {bucket.node.path}, takes requests without TLS",
            hint="set enforce_ssl=True on the s3.Bucket",
        )
    blocks = stack.resolve(resource.public_access_block_configuration)
    if blocks is not None and not all(blocks.get(each) for each in _BLOCKS):
        raise SlipwayError(
            f"the bucket of cluster '{cluster.name}', {bucket.node.path}, may be opened to the public",
            hint="set block_public_access=s3.BlockPublicAccess.BLOCK_ALL on the s3.Bucket",
        )
    return bucket
