"""A bucket for logs that AWS services write: TLS only, never public, and everything in it ends some day."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

_TLS = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBucketProps:
    retention_days: int


class LogBucket(Construct):
    """Logs its own accesses, and stays when its stack goes: S3 deletes only an empty bucket."""

    def __init__(self, scope: Construct, id: str, *, props: LogBucketProps) -> None:
        super().__init__(scope, id)
        self.bucket = s3.Bucket(
            self,
            "Resource",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.S3_MANAGED,
            versioned=True,
            enforce_ssl=True,
            minimum_tls_version=_TLS,
            server_access_logs_prefix="access/",
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="Expire",
                    expiration=Duration.days(props.retention_days),
                    noncurrent_version_expiration=Duration.days(1),
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                )
            ],
            removal_policy=RemovalPolicy.RETAIN,
        )
