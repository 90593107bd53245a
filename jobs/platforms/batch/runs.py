"""Reads the jobs that AWS Batch lists into Runs with their cost, and the facts that explain one job.

A fact that Batch leaves out is None, and a state that Slipway does not know is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, reader
from slipway.jobs.cloud.objects import last_lines
from slipway.jobs.platforms.batch.request import DIGEST_TAG, IMAGE_TAG, NODES_TAG, RECIPE_TAG, STATES
from slipway.jobs.platforms.on_clusters import why_nodes_did_not_join
from slipway.jobs.platforms.sending import LOOK_PAUSE_SECONDS, LOOKS, Waiting
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import WHOLE_NAME
from slipway.jobs.words.run import (
    SECONDS_PER_HOUR,
    Attempt,
    Found,
    JobState,
    Listed,
    Run,
    cost,
    last_error,
    price_of,
    translate,
)
from slipway.jobs.words.targets import BatchTarget
from slipway.jobs.words.text import Say

# The reason of a job that was ended because another machine had sent the same one begins so.
TWIN_REASON = "submitted twice in the same instant; kept is"
MOST_DESCRIBED = 100  # ids in one DescribeJobs
# Without a filter, Batch lists jobs of one status only (API reference, ListJobs); this one matches all.
_EVERY_JOB = [{"name": "AFTER_CREATED_AT", "values": ["0"]}]


def list_jobs(target: BatchTarget) -> list[Listed]:
    """List all jobs. Of ours with one name the first is kept; the others are twins that end, or have."""
    found = _summaries(target)
    newest_first = sorted(found, key=lambda each: (each.get("createdAt", 0), each["jobId"]), reverse=True)
    first = {str(each.get("jobName", "")): each["jobId"] for each in newest_first}
    listed = []
    for summary in found:
        job_id, name = str(summary["jobId"]), str(summary.get("jobName", ""))
        was_ended = str(summary.get("statusReason", "")).startswith(TWIN_REASON)
        is_twin = was_ended or (first[name] != job_id and WHOLE_NAME.fullmatch(name) is not None)
        moment = _moment(summary.get("createdAt"))
        listed.append(Listed(id=job_id, name=name, is_twin=is_twin, created_at=moment))
    return listed


def list_runs(target: BatchTarget) -> list[Run]:
    return _read(_summaries(target), target)


def unfinished_runs(target: BatchTarget) -> list[Run]:
    """Read the unfinished jobs; none if an interrupted destroy has already deleted the queue."""
    queues = reader("batch", target.region).describe_job_queues(jobQueues=[target.queue_arn])["jobQueues"]
    summaries = _summaries(target) if queues else []
    unfinished = [each for each in summaries if not translate(STATES, str(each.get("status"))).is_final]
    return [run for run in _read(unfinished, target) if not run.state.is_final]


def _read(summaries: Sequence[Mapping[str, Any]], target: BatchTarget) -> list[Run]:
    ids = [str(summary["jobId"]) for summary in summaries]
    return [read_run(detail, target) for detail in describe_jobs(target, ids)]


def refresh(job_id: str, target: BatchTarget) -> Found[BatchTarget] | None:
    for detail in describe_jobs(target, [job_id]):
        return Found(run=read_run(detail, target), target=target, detail=detail)
    return None


def is_known(job_id: str, target: BatchTarget) -> bool:
    return any(True for _ in describe_jobs(target, [job_id]))


def find_dependencies_of(run: Run, target: BatchTarget) -> list[Run]:
    """Return the jobs that it waits for, if AWS Batch still lists them."""
    return [read_run(detail, target) for detail in describe_jobs(target, run.depends_on)]


def describe_jobs(target: BatchTarget, ids: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    batch = reader("batch", target.region)
    for start in range(0, len(ids), MOST_DESCRIBED):
        yield from batch.describe_jobs(jobs=list(ids[start : start + MOST_DESCRIBED])).get("jobs", [])


def read_run(detail: Mapping[str, Any], target: BatchTarget, now: datetime | None = None) -> Run:
    tags, container = detail.get("tags") or {}, detail.get("container") or {}
    status = str(detail.get("status", "unknown"))
    attempts = tuple(_read_attempt(attempt) for attempt in detail.get("attempts") or ())
    started, stopped = _moment(detail.get("startedAt")), _moment(detail.get("stoppedAt"))
    # The tag of our own jobs, the definition of others.
    count = str(tags.get(NODES_TAG) or (detail.get("nodeProperties") or {}).get("numNodes", ""))
    nodes = int(count) if count.isdecimal() else None
    state = translate(STATES, status)
    seconds = _seconds(attempts, started, stopped if state.is_final else (now or datetime.now(UTC)))
    return Run(
        id=str(detail.get("jobId", "unknown")),
        name=str(detail.get("jobName", "unknown")),
        target=target.name,
        region=target.region,
        state=state,
        status=status,
        reason=detail.get("statusReason") or None,
        recipe=tags.get(RECIPE_TAG),
        nodes=nodes,
        instance_type=target.instance_type,
        created_at=_moment(detail.get("createdAt")),
        started_at=started,
        stopped_at=stopped,
        attempts=attempts,
        exit_code=container.get("exitCode", attempts[-1].exit_code if attempts else None),
        image=tags.get(IMAGE_TAG),
        image_digest=tags.get(DIGEST_TAG),
        hours=None if seconds is None else round(seconds / SECONDS_PER_HOUR, 4),
        cost=cost(nodes, seconds, price_of(target)),
        depends_on=tuple(str(each["jobId"]) for each in detail.get("dependsOn") or () if each.get("jobId")),
    )


def _summaries(
    target: BatchTarget, filters: Sequence[Mapping[str, object]] = _EVERY_JOB
) -> list[Mapping[str, Any]]:
    pages = reader("batch", target.region).get_paginator("list_jobs")
    pages = pages.paginate(jobQueue=target.queue_arn, filters=filters)
    return [each for page in pages for each in page.get("jobSummaryList", [])]


def _read_attempt(attempt: Mapping[str, Any]) -> Attempt:
    container = attempt.get("container") or {}
    return Attempt(
        started_at=_moment(attempt.get("startedAt")),
        stopped_at=_moment(attempt.get("stoppedAt")),
        exit_code=container.get("exitCode"),
        reason=container.get("reason") or attempt.get("statusReason") or None,
    )


def _moment(milliseconds: object) -> datetime | None:
    """Convert Batch's Unix milliseconds; 0 or nothing means that it has not happened."""
    if not isinstance(milliseconds, int | float) or milliseconds <= 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _seconds(attempts: Sequence[Attempt], started: datetime | None, until: datetime | None) -> float | None:
    """Add up the ended attempts, and the running one, which began at `started`."""
    spans = [(attempt.started_at, attempt.stopped_at) for attempt in attempts]
    if started is not None and started not in [begin for begin, _ in spans]:
        spans.append((started, until))
    if not spans:
        return 0.0 if until is not None and started is None else None
    if any(begin is None or end is None for begin, end in spans):
        return None
    return sum((end - begin).total_seconds() for begin, end in spans if begin and end)


# Facts about one job: the job, its nodes, its queue, the jobs before it, and the machines. These are only
# questions; those without an answer are listed, and the others still explain the job.
_LAST_EVENTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    name: str
    state: str | None
    status: str | None
    reason: str | None

    @property
    def starts_none(self) -> bool:
        """Return True if it starts no machine until somebody corrects it."""
        return self.status == "INVALID" or self.state == "DISABLED"

    @property
    def words(self) -> str:
        """Return its state in words, with AWS's reason."""
        words = f"compute environment {self.name} is {self.state or 'unknown'} and {self.status or 'unknown'}"
        return f"{words}: {self.reason}" if self.reason else words


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    run: Run
    image: str
    said: tuple[str, ...]  # AWS's words on this job, its attempts and its nodes, the most telling first
    exit_code: int | None  # the main node's, if the job has none of its own
    depends_on: tuple[Run, ...]  # those that AWS Batch still lists
    ahead: int  # earlier jobs that are still waiting
    busy_nodes: int  # of running jobs on the same cluster
    queue_state: str | None
    environments: tuple[Environment, ...]
    scaling_failure: str | None
    unanswered: tuple[str, ...]
    allowed_attempts: int | None = None
    last_error: str | None = None  # in the main node's log
    unjoined: tuple[str, ...] = ()  # recent reasons of nodes that did not join the cluster


def gather(found: Found[BatchTarget]) -> JobFacts:
    unanswered: list[Unanswered] = []
    target = found.target
    others = [run for run in unfinished_runs(target) if run.id != found.run.id]
    ahead = [
        run
        for run in others
        if run.state is JobState.WAITING
        and run.created_at is not None
        and found.run.created_at is not None
        and (run.created_at, run.id) < (found.run.created_at, found.run.id)
    ]
    queue_state, environments = find_queue(target, unanswered)
    numbers = range(found.run.nodes or 0) if found.run.state.is_final else ()
    nodes = list(describe_jobs(target, [f"{found.run.id}#{node}" for node in numbers]))
    return JobFacts(
        run=found.run,
        image=target.image,
        said=_said(found, nodes),
        exit_code=_exit_code(found, nodes),
        depends_on=tuple(find_dependencies_of(found.run, target)),
        ahead=len(ahead),
        busy_nodes=sum(other.nodes or 0 for other in others if other.state is JobState.RUNNING),
        queue_state=queue_state,
        environments=environments,
        scaling_failure=_scaling_failure(target, environments, unanswered),
        allowed_attempts=(found.detail.get("retryStrategy") or {}).get("attempts"),
        last_error=_last_error(found, nodes),
        unjoined=_unjoined(found, unanswered),
        unanswered=tuple(dict.fromkeys(each.action for each in unanswered)),
    )


def _said(found: Found[BatchTarget], nodes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    reasons = []
    for detail in (found.detail, *nodes):
        reasons += [detail.get("statusReason"), (detail.get("container") or {}).get("reason")]
        for attempt in reversed(detail.get("attempts") or ()):
            reasons += [(attempt.get("container") or {}).get("reason"), attempt.get("statusReason")]
    return tuple(dict.fromkeys(str(each) for each in reasons if each))


def _exit_code(found: Found[BatchTarget], nodes: Sequence[Mapping[str, Any]]) -> int | None:
    if found.run.exit_code is not None or not nodes:
        return found.run.exit_code
    code = (nodes[0].get("container") or {}).get("exitCode")
    return code if isinstance(code, int) else None


def _last_error(found: Found[BatchTarget], nodes: Sequence[Mapping[str, Any]]) -> str | None:
    stream = (nodes[0].get("container") or {}).get("logStreamName") if nodes else None
    if found.run.state is not JobState.FAILED or not stream:
        return None
    logs = reader("logs", found.target.region)
    return last_error(last_lines(logs, found.target.log_group, stream, events=_LAST_EVENTS))


def _unjoined(found: Found[BatchTarget], unanswered: list[Unanswered]) -> tuple[str, ...]:
    if found.run.state is not JobState.WAITING:
        return ()
    answer = why_nodes_did_not_join(found.target.name, found.target.region)
    if isinstance(answer, Unanswered):
        unanswered.append(answer)
        return ()
    return answer


def find_queue(
    target: BatchTarget, unanswered: list[Unanswered]
) -> tuple[str | None, tuple[Environment, ...]]:
    """Return the state of the cluster's queue and its environments; add to `unanswered` what is unknown."""
    batch = reader("batch", target.region)
    answer = ask(batch, "DescribeJobQueues", jobQueues=[target.queue_arn])
    queue: Mapping[str, Any] = next(iter(_list(answer, "jobQueues", unanswered)), {})
    arns = [str(each["computeEnvironment"]) for each in queue.get("computeEnvironmentOrder") or ()]
    if not arns:
        return queue.get("state"), ()
    answer = ask(batch, "DescribeComputeEnvironments", computeEnvironments=arns)
    return queue.get("state"), tuple(
        Environment(
            name=str(each.get("computeEnvironmentName", "unknown")),
            state=each.get("state"),
            status=each.get("status"),
            reason=each.get("statusReason") or None,
        )
        for each in _list(answer, "computeEnvironments", unanswered)
    )


def _scaling_failure(
    target: BatchTarget, environments: Sequence[Environment], unanswered: list[Unanswered]
) -> str | None:
    """Return why no node could start, by the scaling groups whose names contain the environment's."""
    scaling = reader("autoscaling", target.region)
    groups = ask_all(scaling, "DescribeAutoScalingGroups", "AutoScalingGroups")
    if isinstance(groups, Unanswered):
        unanswered.append(groups)
        return None
    names = [str(group["AutoScalingGroupName"]) for group in groups]
    for name in (name for name in names if any(environment.name in name for environment in environments)):
        answer = ask(scaling, "DescribeScalingActivities", AutoScalingGroupName=name, MaxRecords=10)
        for activity in _list(answer, "Activities", unanswered):
            if activity.get("StatusCode") == "Failed" and activity.get("StatusMessage"):
                return str(activity["StatusMessage"])
    return None


def _list(answer: Any, key: str, unanswered: list[Unanswered]) -> list[Mapping[str, Any]]:
    if isinstance(answer, Unanswered):
        unanswered.append(answer)
        return []
    return list(answer.get(key) or [])


# Two machines that submit the same job at the same time: both look, see none, and send it. AWS Batch cannot
# refuse a job because of its name. So whoever has sent one looks again, and if there are two, every sender
# keeps the first and ends the others. The later sender looks later and sees both, so two are left only if
# Batch lists the first job later than the second was sent and looked for.


class SubmittedTwice(SlipwayError):
    """The same job was submitted twice, and the second could not be ended."""


def find_jobs(name: str, target: BatchTarget) -> list[Mapping[str, Any]]:
    """Find all jobs of this exact name, the first one first; Batch's own filter ignores case."""
    listed = _summaries(target, [{"name": "JOB_NAME", "values": [name]}])
    found = [each for each in listed if each.get("jobName") == name]
    return sorted(found, key=lambda each: (each.get("createdAt", 0), each["jobId"]))


def keep_first(sent: str, name: str, target: BatchTarget, waiting: Waiting, say: Say) -> str:
    """End all but the first job of this name, and return the id of the one that stays."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        found = _look_until_listed(sent, name, target, waiting)
    except (BotoCoreError, ClientError) as error:
        say(f"another machine may have submitted {name} in the same instant: {error}")
        return sent
    first = str(found[0]["jobId"]) if found else sent
    for twin in found[1:]:
        job_id = str(twin["jobId"])
        if twin.get("status") in ("SUCCEEDED", "FAILED"):
            continue
        try:
            aws.client("batch", target.region).terminate_job(jobId=job_id, reason=f"{TWIN_REASON} {first}")
        except (BotoCoreError, ClientError) as error:
            raise SubmittedTwice(
                f"{name} was submitted twice in the same instant, and {job_id} could not be ended: {error}",
                hint=f"slipway cancel {job_id}; {first} is the same job",
            ) from error
    if first != sent:
        say(f"another machine submitted {name} in the same instant, as {first}; {sent} was ended")
    return first


def _look_until_listed(
    sent: str, name: str, target: BatchTarget, waiting: Waiting
) -> Sequence[Mapping[str, Any]]:
    """List the jobs until our own is among them: a list without it is too old."""
    for look in range(LOOKS):
        if look:
            waiting.pause(LOOK_PAUSE_SECONDS)
        found = find_jobs(name, target)
        if any(each["jobId"] == sent for each in found):
            return found
    return ()
