"""What a job's log says of ranks that seem to have worked alone: it succeeded, and no platform knows more."""

from __future__ import annotations

from dataclasses import replace

from slipway.containers.runtime.launch.node_roles import TO_WORK_TOGETHER, WORKED_ALONE
from slipway.jobs.cloud.aws import Unanswered, ask, reader
from slipway.jobs.platforms.registry import platform_of
from slipway.jobs.words.explanation import Explanation
from slipway.jobs.words.run import AnyFound
from slipway.jobs.words.states import JobState

_MAIN_NODE = 0  # whose launcher says it, as one of its last lines
_LAST_LINES = 100
_LAST_STREAMS = 4
_MARK = "warning: "


def find_warning(found: AnyFound) -> str | None:
    """Return what the launcher of a job that succeeded said of its ranks; None where it said nothing."""
    if found.run.state is not JobState.SUCCEEDED:
        return None
    streams = platform_of(found.target).log_streams(found, _MAIN_NODE)[-_LAST_STREAMS:]
    lines = [line for _, stream in streams for line in _last_lines(found, stream)]
    said = [line.partition(_MARK)[2] for line in lines if WORKED_ALONE in line and _MARK in line]
    return said[-1] if said else None


def with_warning(explanation: Explanation, found: AnyFound) -> Explanation:
    """Return the explanation, with what the job's launcher said of ranks that seem to have worked alone."""
    warning = find_warning(found)
    if warning is None:
        return explanation
    return replace(
        explanation,
        sentence=f"{explanation.sentence}, but its {WORKED_ALONE}",
        fix=TO_WORK_TOGETHER,
        evidence=(*explanation.evidence, f"the log: {warning}"),
    )


def _last_lines(found: AnyFound, stream: str) -> list[str]:
    answer = ask(
        reader("logs", found.target.region),
        "GetLogEvents",
        logGroupName=found.target.log_group,
        logStreamName=stream,
        limit=_LAST_LINES,
        startFromHead=False,
    )
    events = [] if isinstance(answer, Unanswered) else answer["events"]
    return [line for event in events for line in str(event["message"]).splitlines()]
