"""Explains in one sentence why a job is not running, or why it failed, and what to do. Pure: facts are given.

AWS's own words are passed on unchanged if no row of reasons.py knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from slipway.jobs.platforms.batch.runs import JobFacts
from slipway.jobs.platforms.reasons import Told, counted, explained, known_reason, told_by_state
from slipway.jobs.words.run import (
    EXIT_CODES,
    RETRY_EXIT_CODE,
    SEE_LOG,
    Explanation,
    JobState,
    Reason,
    in_attempt,
    not_succeeded,
)

MEND_ENVIRONMENT = "fix what AWS reports, and deploy again"
_NOTHING_TO_DO = ""
_LOOK_AHEAD = "slipway preflight {target}"
_LOOK_AT_NODE = (
    "its console says more: aws ec2 get-console-output; the node ends itself, the job does not: "
    "slipway cancel {job}"
)
_DEPENDENT = "dependent job"  # Batch's words if a dependency failed
_TIME_LIMIT = "JobStateTimeLimit"  # Batch's words if jobStateTimeLimitActions cancelled it


def explain(facts: JobFacts) -> Explanation:
    told = _BY_STATE[facts.run.state](facts) if facts.run.state in _BY_STATE else told_by_state(facts.run)
    environments = [
        each.words for each in facts.environments if each.status != "VALID" or each.state != "ENABLED"
    ]
    scaling = [f"auto scaling: {facts.scaling_failure}"] if facts.scaling_failure else []
    silent = [f"{action} gave no answer" for action in facts.unanswered]
    logged = [f"the log: {facts.last_error}"] if facts.last_error else []
    return explained(facts.run, told, facts.image, (*facts.said, *logged, *environments, *scaling, *silent))


def _waiting(facts: JobFacts) -> Told:
    """Explain a wait: by the job's own reason, then by what blocks the queue, its turn, the machines."""
    if waited_for := not_succeeded(facts.depends_on):
        return f"waits for {', '.join(waited_for)} to succeed first", _NOTHING_TO_DO
    own = (facts.run.reason,) if facts.run.reason else ()  # earlier attempts' reasons are out of date
    if facts.unjoined:  # AWS Batch itself knows no reason for these
        return f"waits for a node that does not join: {'; '.join(facts.unjoined)}", _LOOK_AT_NODE
    told = _known(own, "waits: ") or _blocked(facts)
    if told:
        return told
    if facts.ahead:
        return f"waits for its turn: {counted(facts.ahead, 'job')} came before it", _NOTHING_TO_DO
    if own:
        return f"waits, and AWS Batch says: {own[0]}", _LOOK_AHEAD
    busy = f"; {counted(facts.busy_nodes, 'node')} of the cluster are busy" if facts.busy_nodes else ""
    return f"waits for {_nodes(facts)} to start, which takes minutes{busy}", _NOTHING_TO_DO


def _blocked(facts: JobFacts) -> Told | None:
    if facts.queue_state not in (None, "ENABLED"):
        return f"waits because its queue is {facts.queue_state}", "enable it, or deploy the cluster again"
    for environment in facts.environments:
        if environment.starts_none:
            return f"waits because {environment.words}", MEND_ENVIRONMENT
    if facts.scaling_failure:
        reason = known_reason(facts.scaling_failure)
        means = reason.means if reason else f"AWS says: {facts.scaling_failure}"
        return f"waits because no machine could be started: {means}", reason.fix if reason else _NOTHING_TO_DO
    return None


def _failed(facts: JobFacts) -> Told:
    failed = [run.name for run in facts.depends_on if run.state is JobState.FAILED]
    if failed and facts.run.started_at is None and any(_DEPENDENT in said.lower() for said in facts.said):
        means = f"failed before it started: it depends on {', '.join(failed)}, which failed"
        return means, f"slipway explain {failed[0]}"
    is_too_late = any(_TIME_LIMIT in said for said in facts.said)
    told = _known(facts.said, "was cancelled by the time limit of its queue: " if is_too_late else "failed: ")
    if told:
        return told
    code = facts.exit_code
    if code is not None and code != 0:
        reason = EXIT_CODES.get(code)
        tried = in_attempt(len(facts.run.attempts), facts.allowed_attempts) if code == RETRY_EXIT_CODE else ""
        means = f"failed: {reason.means if reason else 'the program failed'}{tried} (exit code {code})"
        return means, reason.fix if reason else SEE_LOG
    if facts.said:
        return f"failed, and AWS Batch says: {facts.said[0]}", SEE_LOG
    return "failed, and AWS Batch does not say why", SEE_LOG


def _starting(facts: JobFacts) -> Told:
    return f"has {_nodes(facts)}, which pull the image and start", _NOTHING_TO_DO


_BY_STATE: Mapping[JobState, Callable[[JobFacts], Told]] = {
    JobState.WAITING: _waiting,
    JobState.STARTING: _starting,
    JobState.FAILED: _failed,
}


def _known(words: Sequence[str], begin: str) -> Told | None:
    reasons: list[Reason] = [reason for said in words if (reason := known_reason(said))]
    return (f"{begin}{reasons[0].means}", reasons[0].fix) if reasons else None


def _nodes(facts: JobFacts) -> str:
    return counted(facts.run.nodes, "node")
