"""Looks at a bucket that is its owner's; of one that is imported, nothing can be seen here."""

from __future__ import annotations

import json

from aws_cdk import Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from slipway.infra.declare.types import Cluster
from slipway.jobs.words.errors import SlipwayError

_TLS = "aws:SecureTransport"
_BLOCKS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")


def given_bucket(_scope: Construct, cluster: Cluster, _key: kms.IKey, *, bucket: s3.IBucket) -> s3.IBucket:
    """Return the bucket; refuse one of the same app that lets the public in, or requests without TLS."""
    resource = bucket.node.default_child
    if isinstance(resource, s3.CfnBucket):
        _refuse_open(cluster.name, bucket, resource)
    return bucket


def _refuse_open(cluster: str, bucket: s3.IBucket, resource: s3.CfnBucket) -> None:
    stack = Stack.of(bucket)
    policy = json.dumps(stack.resolve(bucket.policy.document)) if bucket.policy else ""
    if _TLS not in policy:
        raise SlipwayError(
            f"the bucket of cluster '{cluster}', {bucket.node.path}, takes requests without TLS",
            hint="set enforce_ssl=True on the s3.Bucket",
        )
    blocks = stack.resolve(resource.public_access_block_configuration)
    if blocks is not None and not all(blocks.get(each) for each in _BLOCKS):
        raise SlipwayError(
            f"the bucket of cluster '{cluster}', {bucket.node.path}, may be opened to the public",
            hint="set block_public_access=s3.BlockPublicAccess.BLOCK_ALL on the s3.Bucket",
        )
