"""Two machines that submit the same job in the same instant: both look, see none, and send it.

AWS Batch has no way to take a job only if there is none of its name. So whoever has sent one looks once more,
and where there are two every sender keeps the same one, the first, and ends the others. Whoever sent later
looks later and sees both, so two that run are left only where Batch lists the first job later than the second
was sent and looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipway.jobs.cloud import aws
from slipway.jobs.platforms.batch.runs import TWIN_REASON
from slipway.jobs.platforms.sending import LOOK_PAUSE_SECONDS, LOOKS, Waiting
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.targets import BatchTarget
from slipway.jobs.words.text import Say

_ENDED = ("SUCCEEDED", "FAILED")


class SubmittedTwice(SlipwayError):
    """The same job was submitted twice, and the second could not be ended."""


def find_jobs(name: str, target: BatchTarget) -> list[dict[str, Any]]:
    """Find all jobs of this exact name, the first one first; Batch's own filter ignores case."""
    filters = [{"name": "JOB_NAME", "values": [name]}]
    batch = aws.reader("batch", target.region)
    pages = batch.get_paginator("list_jobs").paginate(jobQueue=target.queue_arn, filters=filters)
    found = [each for page in pages for each in page.get("jobSummaryList", []) if each.get("jobName") == name]
    return sorted(found, key=lambda each: (each.get("createdAt", 0), each["jobId"]))


def keep_first(sent: str, name: str, target: BatchTarget, waiting: Waiting, say: Say) -> str:
    """End all but the first job of this name, and return the id of the one that stays."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        found = _look_until_listed(sent, name, target, waiting)
    except (BotoCoreError, ClientError) as error:
        say(f"another machine may have submitted {name} in the same instant: {error}")
        return sent
    kept = str(found[0]["jobId"]) if found else sent
    for each in found[1:]:
        if each.get("status") not in _ENDED:
            _end(str(each["jobId"]), kept, name, target)
    if kept != sent:
        say(f"another machine submitted {name} in the same instant, as {kept}; {sent} was ended")
    return kept


def _look_until_listed(
    sent: str, name: str, target: BatchTarget, waiting: Waiting
) -> Sequence[dict[str, Any]]:
    """List the jobs until our own is among them: a list without it is too old."""
    for look in range(LOOKS):
        if look:
            waiting.pause(LOOK_PAUSE_SECONDS)
        found = find_jobs(name, target)
        if any(each["jobId"] == sent for each in found):
            return found
    return ()


def _end(job_id: str, kept: str, name: str, target: BatchTarget) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        aws.client("batch", target.region).terminate_job(jobId=job_id, reason=f"{TWIN_REASON} {kept}")
    except (BotoCoreError, ClientError) as error:
        raise SubmittedTwice(
            f"{name} was submitted twice in the same instant, and {job_id} could not be ended: {error}",
            hint=f"slipway cancel {job_id}; {kept} is the same job",
        ) from error
