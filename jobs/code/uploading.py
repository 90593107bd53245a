"""Brings a packed folder into a cluster's bucket, once for each content."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from slipway.jobs.cloud.objects import find_object
from slipway.jobs.code.packing import PackedProject
from slipway.jobs.words.inputs import PROJECT_DAYS, project_key
from slipway.jobs.words.targets import Target

# The bucket forgets it after PROJECT_DAYS, and a job may read it long after it was submitted.
_FRESH = timedelta(days=PROJECT_DAYS / 2)


def project_url(digest: str, target: Target) -> str:
    return f"s3://{target.bucket}/{project_key(digest)}"


def upload_project(packed: PackedProject, target: Target, s3: Any) -> bool:
    """Upload the archive unless it is there and stays for long; return True if it was sent."""
    owner, key = {"ExpectedBucketOwner": target.account}, project_key(packed.digest)
    there = find_object(s3, "HeadObject", Bucket=target.bucket, Key=key, **owner)
    if there is not None and datetime.now(UTC) - there["LastModified"] < _FRESH:
        return False
    s3.upload_file(str(packed.archive), target.bucket, key, ExtraArgs=owner)
    return True
