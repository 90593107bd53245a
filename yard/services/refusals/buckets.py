"""The names that S3 takes for a bucket. Source: S3 user guide, "General purpose bucket naming rules"."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_NAME = re.compile(
    r"(?!\d+\.\d+\.\d+\.\d+$)(?!xn--|sthree-|amzn-s3-demo-)(?!.*(\.\.|\.-|-\.))"
    r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?<!-s3alias)(?<!--ol-s3)(?<!\.mrap)(?<!--x-s3)(?<!--table-s3)"
)


def is_allowed(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


@lru_cache(maxsize=1)
def guard() -> None:
    """Let moto refuse the others, for good, since its classes outlive a reset."""
    from moto.s3.exceptions import InvalidBucketName
    from moto.s3.models import S3Backend

    create = S3Backend.create_bucket

    def create_bucket(backend: Any, bucket_name: str, *rest: Any, **more: Any) -> Any:
        if not is_allowed(bucket_name):
            raise InvalidBucketName
        return create(backend, bucket_name, *rest, **more)

    S3Backend.create_bucket = create_bucket
