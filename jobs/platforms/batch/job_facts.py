"""What can be found out about one job: the job, its nodes, its queue, what is before it, and the machines.

Only questions; what is not answered is named, and the rest is explained all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, reader
from slipway.jobs.platforms.batch.runs import describe_jobs, find_dependencies_of, list_runs
from slipway.jobs.platforms.unjoined_nodes import why_nodes_did_not_join
from slipway.jobs.words.log_marks import last_error
from slipway.jobs.words.run import Found, Run
from slipway.jobs.words.states import JobState
from slipway.jobs.words.targets import BatchTarget

_FAILED = "Failed"
_LAST_LINES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    name: str
    state: str | None
    status: str | None
    reason: str | None

    @property
    def starts_none(self) -> bool:
        """Return True if no machine comes of it until somebody mends it."""
        return self.status == "INVALID" or self.state == "DISABLED"

    @property
    def words(self) -> str:
        """Return how it stands, and AWS's reason."""
        words = f"compute environment {self.name} is {self.state or 'unknown'} and {self.status or 'unknown'}"
        return f"{words}: {self.reason}" if self.reason else words


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    run: Run
    image: str
    said: tuple[str, ...]  # by AWS of this job, its attempts and its nodes, the most telling first
    exit_code: int | None  # of the main node where the job has none of its own
    depends_on: tuple[Run, ...]  # as far as AWS Batch still knows them
    ahead: int  # jobs that came before it and wait too
    busy_nodes: int  # of jobs that run on the same cluster
    queue_state: str | None
    environments: tuple[Environment, ...]
    scaling_failure: str | None
    unanswered: tuple[str, ...]
    allowed_attempts: int | None = None
    last_error: str | None = None  # that the main node logged
    unjoined: tuple[str, ...] = ()  # why nodes of the cluster did not join it lately, in words


def gather(found: Found[BatchTarget]) -> JobFacts:
    unanswered: list[str] = []
    target = found.target
    others = [run for run in list_runs(target) if run.id != found.run.id]
    queue = _queue(target, unanswered)
    environments = _environments(target, queue, unanswered)
    nodes = _node_details(found, target)
    return JobFacts(
        run=found.run,
        image=target.image,
        said=_said(found, nodes),
        exit_code=_exit_code(found, nodes),
        depends_on=tuple(find_dependencies_of(found.run, target)),
        ahead=sum(_is_before(other, found.run) for other in others),
        busy_nodes=sum(other.nodes or 0 for other in others if other.state is JobState.RUNNING),
        queue_state=queue.get("state"),
        environments=environments,
        scaling_failure=_scaling_failure(target, environments, unanswered),
        allowed_attempts=(found.detail.get("retryStrategy") or {}).get("attempts"),
        last_error=_last_error(found, nodes),
        unjoined=_unjoined(found, unanswered),
        unanswered=tuple(dict.fromkeys(unanswered)),
    )


def _said(found: Found[BatchTarget], nodes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    said = []
    for detail in (found.detail, *nodes):
        said += [detail.get("statusReason"), (detail.get("container") or {}).get("reason")]
        for attempt in reversed(detail.get("attempts") or ()):
            said += [(attempt.get("container") or {}).get("reason"), attempt.get("statusReason")]
    return tuple(dict.fromkeys(str(each) for each in said if each))


def _node_details(found: Found[BatchTarget], target: BatchTarget) -> list[Mapping[str, Any]]:
    if not found.run.state.is_final:
        return []
    return list(describe_jobs(target, [f"{found.run.id}#{node}" for node in range(found.run.nodes or 0)]))


def _exit_code(found: Found[BatchTarget], nodes: Sequence[Mapping[str, Any]]) -> int | None:
    if found.run.exit_code is not None or not nodes:
        return found.run.exit_code
    code = (nodes[0].get("container") or {}).get("exitCode")
    return code if isinstance(code, int) else None


def _last_error(found: Found[BatchTarget], nodes: Sequence[Mapping[str, Any]]) -> str | None:
    stream = (nodes[0].get("container") or {}).get("logStreamName") if nodes else None
    if found.run.state is not JobState.FAILED or not stream:
        return None
    answer = ask(
        reader("logs", found.target.region),
        "GetLogEvents",
        logGroupName=found.target.log_group,
        logStreamName=stream,
        limit=_LAST_LINES,
        startFromHead=False,
    )
    lines = [] if isinstance(answer, Unanswered) else [str(event["message"]) for event in answer["events"]]
    return last_error([line.rstrip("\n") for line in lines])


def _unjoined(found: Found[BatchTarget], unanswered: list[str]) -> tuple[str, ...]:
    if found.run.state is not JobState.WAITING:
        return ()
    answer = why_nodes_did_not_join(found.target.name, found.target.region)
    if isinstance(answer, Unanswered):
        unanswered.append(answer.action)
        return ()
    return answer


def _is_before(other: Run, run: Run) -> bool:
    if other.state is not JobState.WAITING or other.created_at is None or run.created_at is None:
        return False
    return (other.created_at, other.id) < (run.created_at, run.id)


def _queue(target: BatchTarget, unanswered: list[str]) -> Mapping[str, Any]:
    answer = ask(reader("batch", target.region), "DescribeJobQueues", jobQueues=[target.queue_arn])
    return next(iter(_list(answer, "jobQueues", unanswered)), {})


def _environments(
    target: BatchTarget, queue: Mapping[str, Any], unanswered: list[str]
) -> tuple[Environment, ...]:
    arns = [str(each["computeEnvironment"]) for each in queue.get("computeEnvironmentOrder") or ()]
    if not arns:
        return ()
    answer = ask(reader("batch", target.region), "DescribeComputeEnvironments", computeEnvironments=arns)
    return tuple(
        Environment(
            name=str(each.get("computeEnvironmentName", "unknown")),
            state=each.get("state"),
            status=each.get("status"),
            reason=each.get("statusReason") or None,
        )
        for each in _list(answer, "computeEnvironments", unanswered)
    )


def find_environments(target: BatchTarget) -> tuple[Environment, ...]:
    """Return the compute environments of the cluster's queue, as far as AWS says."""
    unanswered: list[str] = []
    return _environments(target, _queue(target, unanswered), unanswered)


def _scaling_failure(
    target: BatchTarget, environments: Sequence[Environment], unanswered: list[str]
) -> str | None:
    """Batch starts nodes through auto scaling groups that carry the environment's name in theirs."""
    scaling = reader("autoscaling", target.region)
    groups = ask_all(scaling, "DescribeAutoScalingGroups", "AutoScalingGroups")
    if isinstance(groups, Unanswered):
        unanswered.append(groups.action)
        return None
    names = [str(group["AutoScalingGroupName"]) for group in groups]
    for name in (name for name in names if any(environment.name in name for environment in environments)):
        answer = ask(scaling, "DescribeScalingActivities", AutoScalingGroupName=name, MaxRecords=10)
        for activity in _list(answer, "Activities", unanswered):
            if activity.get("StatusCode") == _FAILED and activity.get("StatusMessage"):
                return str(activity["StatusMessage"])
    return None


def _list(answer: Any, key: str, unanswered: list[str]) -> list[Mapping[str, Any]]:
    if isinstance(answer, Unanswered):
        unanswered.append(answer.action)
        return []
    return list(answer.get(key) or [])
