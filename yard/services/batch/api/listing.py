"""ListJobs: which jobs, of which state or by which filters. A filter is a line of _FILTERS.

Source: the API reference of ListJobs; filters leave the state out of account, without either it is RUNNING.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.services.batch import job_store
from slipway.yard.services.batch.api import views
from slipway.yard.services.batch.job_store import BatchJob
from slipway.yard.services.recorded import page

LARGEST_PAGE = 100


def list_jobs(parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    with job_store.changed:
        found = list(_summaries(parameters, region))
    here, following = page(found, {"maxResults": LARGEST_PAGE, **parameters})
    return {"jobSummaryList": here, **following}


def _summaries(parameters: Mapping[str, Any], region: str) -> Iterator[dict[str, Any]]:
    status = parameters.get("jobStatus", "RUNNING")
    if parameters.get("multiNodeJobId"):
        job = _required(parameters["multiNodeJobId"])
        yield from (views.summary(job, node) for node in range(job.nodes) if job.status == status)
    elif parameters.get("arrayJobId"):
        children = _required(parameters["arrayJobId"]).children
        yield from (views.summary(child) for child in children if child.status == status)
    else:
        yield from map(views.summary, _of_queue(parameters, region, status))


def _of_queue(parameters: Mapping[str, Any], region: str, status: str) -> Iterator[BatchJob]:
    """The newest first."""
    queue = _queue_arn(parameters.get("jobQueue", ""), region)
    filters = parameters.get("filters") or ()
    for job in reversed(list(job_store.in_region(region))):
        if job.parent or job.queue != queue:
            continue
        if all(_passes(job, each) for each in filters) and (filters or job.status == status):
            yield job


def _passes(job: BatchJob, given: Mapping[str, Any]) -> bool:
    test = _FILTERS.get(given.get("name", ""))
    if test is None:
        raise ApiError("ClientException", f"filter {given.get('name')} is none of {', '.join(_FILTERS)}")
    return any(test(job, value) for value in given.get("values", ()))


def _like(text: str, pattern: str) -> bool:
    text, pattern = text.lower(), pattern.lower()
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def _is_of_definition(job: BatchJob, pattern: str) -> bool:
    arn = job.definition["jobDefinitionArn"]
    revision = arn.rpartition("/")[2]
    return any(_like(text, pattern) for text in (arn, revision, revision.partition(":")[0]))


def _required(job_id: str) -> BatchJob:
    job = job_store.find(job_id)
    if job is None:
        raise ApiError("ClientException", f"Job {job_id} does not exist")
    return job


def _queue_arn(wanted: str, region: str) -> str:
    from moto.batch.models import batch_backends

    queue = batch_backends[ACCOUNT][region].get_job_queue(wanted)
    if queue is None:
        raise ApiError("ClientException", f"Job queue {wanted or '(none)'} does not exist")
    return str(queue.arn)


_FILTERS: Mapping[str, Callable[[BatchJob, str], bool]] = {
    "JOB_NAME": lambda job, value: _like(job.name, value),
    "JOB_DEFINITION": _is_of_definition,
    "BEFORE_CREATED_AT": lambda job, value: job.created_at < int(value),
    "AFTER_CREATED_AT": lambda job, value: job.created_at > int(value),
    "SHARE_IDENTIFIER": lambda job, value: _like(job.submit.get("shareIdentifier", ""), value),
}
