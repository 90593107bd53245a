"""What a job may read from S3: infra gives its role these rights, and submit says where they end.

Another prefix is a word of JOB_PREFIXES. What `slipway run` sends lies apart: jobs read it, and cannot
change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from slipway.jobs.words.job import DoesNotFit, Job
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import printable

JOB_PREFIXES = ("datasets/", "jobs/")
PROJECT_PREFIX = "sources/"  # folders of users, each under the digest of what is in it
PROJECT_DAYS = 180  # after which one expires; a job that comes after half of it is sent once more
_S3 = "s3://"
_WEB = ("http://", "https://")


def refuse_unreachable_inputs(job: Job, target: Target) -> None:
    """Refuse a URL where the nodes reach AWS alone: the job would fail after all of them were paid for."""
    if target.has_internet:
        return
    for name, value in job.settings.items():
        if value.lower().startswith(_WEB):
            place = printable(value)
            raise DoesNotFit(
                f"{name} is {place}, and the nodes of {target.name} reach no internet; allowed are a path in "
                f"its files and s3://{target.bucket}/{JOB_PREFIXES[0]}…",
                hint=f"download it here, then: slipway upload FILE --on {target.name}; or deploy with a way "
                f"out: cdk deploy {target.name} -c {target.name}.egress=nat",
            )


def project_key(digest: str) -> str:
    """Return where a folder lies; the digest is the plain archive's: releases of zlib compress otherwise."""
    return f"{PROJECT_PREFIX}{digest}.tar.gz"


def unreadable_inputs(job: Job, target: Target) -> Iterator[str]:
    """Warnings and no refusals: a bucket's own policy may let the job's role in."""
    for name, value in {**job.settings, **({"--data": job.data} if job.data else {})}.items():
        if not value.startswith(_S3):
            continue
        bucket, _, key = value.removeprefix(_S3).partition("/")
        if bucket != target.bucket or not f"{key}/".startswith((*JOB_PREFIXES, PROJECT_PREFIX)):
            place, own = printable(value), f"{_S3}{target.bucket}"
            yield (
                f"{name} is {place}, and the role of jobs on {target.name} may read only "
                f"{' and '.join(f'{own}/{prefix}' for prefix in JOB_PREFIXES)}; copy it there: "
                f"aws s3 sync {quote(place)} {own}/{JOB_PREFIXES[0]}{name.strip('-')}, or let the policy of "
                "a bucket of this account allow that role"
            )
