"""What a job may read from S3: infra gives its role these rights, and submit says where they end.

Another prefix is a word of JOB_PREFIXES.
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from slipway.jobs.core.job import Job
from slipway.jobs.core.targets import Target
from slipway.jobs.core.text import printable

JOB_PREFIXES = ("datasets/", "jobs/")
_S3 = "s3://"


def unreadable_inputs(job: Job, target: Target) -> Iterator[str]:
    """Warnings and no refusals: a bucket's own policy may let the job's role in."""
    for name, value in job.settings.items():
        if not value.startswith(_S3):
            continue
        bucket, _, key = value.removeprefix(_S3).partition("/")
        if bucket != target.bucket or not f"{key}/".startswith(JOB_PREFIXES):
            place, own = printable(value), f"{_S3}{target.bucket}"
            yield (
                f"{name} is {place}, and the role of jobs on {target.name} may read only "
                f"{' and '.join(f'{own}/{prefix}' for prefix in JOB_PREFIXES)}; copy it there: "
                f"aws s3 sync {quote(place)} {own}/{JOB_PREFIXES[0]}{name}, or let the policy of a "
                "bucket of this account allow that role"
            )
