"""A bucket for data: TLS only, encrypted, versioned, never public, and its accesses logged if it is kept."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from slipway.infra.patterns.storage.encryption import removal_policy
from slipway.jobs.words.job import PROJECT_DAYS, PROJECT_PREFIX

_TLS = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class DataBucketProps:
    key: kms.IKey
    log_retention_days: int
    keep: bool


class DataBucket(Construct):
    """Keeps its objects when its stack goes: emptying it would take a Lambda.

    For the same reason a bucket that goes with its stack has no access logs: they keep coming.
    """

    def __init__(self, scope: Construct, id: str, *, props: DataBucketProps) -> None:
        super().__init__(scope, id)
        logs = _access_logs(self, props) if props.keep else None
        self.bucket = s3.Bucket(
            self,
            "Resource",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=props.key,
            bucket_key_enabled=True,  # or every object read is a KMS call that is billed
            versioned=True,
            enforce_ssl=True,
            minimum_tls_version=_TLS,
            server_access_logs_bucket=logs,
            server_access_logs_prefix="data/" if logs else None,
            lifecycle_rules=list(_DATA_LIFECYCLE),
            removal_policy=removal_policy(props.keep),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UseBucketProps:
    bucket: s3.IBucket
    read: tuple[str, ...]  # prefixes, such as "images/*"
    write: tuple[str, ...] = ()


def bucket_statements(props: UseBucketProps) -> tuple[iam.PolicyStatement, ...]:
    listing = iam.PolicyStatement(
        sid="FindObjects",
        actions=["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"],
        resources=[props.bucket.bucket_arn],
    )
    reading = iam.PolicyStatement(
        sid="ReadObjects",
        actions=["s3:GetObject", "s3:GetObjectVersion"],
        resources=[props.bucket.arn_for_objects(prefix) for prefix in props.read],
    )
    writing = iam.PolicyStatement(
        sid="WriteObjects",
        actions=["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:ListMultipartUploadParts", "s3:PutObject"],
        resources=[props.bucket.arn_for_objects(prefix) for prefix in props.write],
    )
    return (listing, reading, writing) if props.write else (listing, reading)


def _access_logs(scope: Construct, props: DataBucketProps) -> s3.Bucket:
    """Use S3's own keys: S3 delivers access logs to no bucket that is encrypted with ours."""
    return s3.Bucket(
        scope,
        "AccessLogs",
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        encryption=s3.BucketEncryption.S3_MANAGED,
        versioned=True,
        enforce_ssl=True,
        minimum_tls_version=_TLS,
        lifecycle_rules=[
            s3.LifecycleRule(
                id="Expire",
                expiration=Duration.days(props.log_retention_days),
                noncurrent_version_expiration=Duration.days(1),
                abort_incomplete_multipart_upload_after=Duration.days(1),
            )
        ],
        removal_policy=removal_policy(props.keep),
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
