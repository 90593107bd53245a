"""Refuses bucket names and bucket policies that S3 refuses.

Sources: S3 user guide, "General purpose bucket naming rules"; many users quote the messages for policies.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.services.refusals import principals

_NAME = re.compile(
    r"(?!\d+\.\d+\.\d+\.\d+$)(?!xn--|sthree-|amzn-s3-demo-)(?!.*(\.\.|\.-|-\.))"
    r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?<!-s3alias)(?<!--ol-s3)(?<!\.mrap)(?<!--x-s3)(?<!--table-s3)"
)


def is_allowed(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def what_is_wrong(policy: str, bucket: str) -> str:
    """Return S3's message for a policy that it refuses; "" if it accepts it."""
    of_bucket = rf"(?i)\*$|arn:[a-z-]+:s3:::{re.escape(bucket)}([/*]|$)"
    try:
        statements = principals.statements(policy)
    except ApiError:
        return "Missing required field Statement"
    for statement in statements:
        unknown = principals.unknown([statement])
        if unknown and unknown[0] == "AWS":
            return "Invalid principal in policy"
        for name, pattern in (("Action", r"(?i)s3:|s3-object-lambda:|\*$"), ("Resource", of_bucket)):
            if any(re.match(pattern, each) is None for each in principals.named(statement.get(name))):
                return f"Policy has invalid {name.lower()}"
    return ""


@lru_cache(maxsize=1)
def guard() -> None:
    """Patch moto once, since its classes outlive a reset, to refuse other names and policies."""
    from moto.s3.exceptions import InvalidBucketName, S3ClientError
    from moto.s3.models import S3Backend

    create = S3Backend.create_bucket

    def create_bucket(backend: Any, bucket_name: str, *rest: Any, **more: Any) -> Any:
        if not is_allowed(bucket_name):
            raise InvalidBucketName
        return create(backend, bucket_name, *rest, **more)

    put = S3Backend.put_bucket_policy

    def put_bucket_policy(backend: Any, bucket_name: str, policy: Any) -> None:
        text = policy.decode() if isinstance(policy, bytes) else str(policy)
        if wrong := what_is_wrong(text, bucket_name):
            raise S3ClientError("MalformedPolicy", wrong)
        put(backend, bucket_name, policy)

    S3Backend.create_bucket = create_bucket
    S3Backend.put_bucket_policy = put_bucket_policy
