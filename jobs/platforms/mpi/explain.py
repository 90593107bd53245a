"""Explains in one sentence, by its nodes' words, why a job of an MPI cluster is not running or failed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from slipway.jobs.cloud.aws import Unanswered, reader
from slipway.jobs.cloud.objects import find_streams, last_lines
from slipway.jobs.platforms.mpi.main_node import MAIN_NODE_LOST
from slipway.jobs.platforms.mpi.nodes import find_answers
from slipway.jobs.platforms.mpi.runs import find_dependencies_of
from slipway.jobs.platforms.on_clusters import why_nodes_did_not_join
from slipway.jobs.platforms.reasons import Told, explained, known_reason, told_by_state
from slipway.jobs.words.run import (
    AGAIN,
    ERROR,
    EXIT_CODES,
    LONGER,
    RETRY_EXIT_CODE,
    SEE_LOG,
    Explanation,
    Found,
    JobState,
    Run,
    in_attempt,
    last_attempt,
    not_succeeded,
    rank_of,
)
from slipway.jobs.words.targets import MpiTarget

_LAST_EVENTS = 100
_LOST = re.compile(r"host (?P<host>\S+(?:, \S+)*) (?:was lost|does not answer|no longer answers)")
_RESUME = f"its group starts another; {AGAIN}"

# States of Systems Manager (user guide, "Understanding command statuses"): what each means, and what to do.
_DETAILS: Mapping[str, tuple[str, str]] = {
    "Cancelled": ("somebody cancelled it", AGAIN),
    "ExecutionTimedOut": ("it took longer than its timeout", LONGER),
    "DeliveryTimedOut": (
        "its main node did not accept it in time",
        "slipway status --on {target} --nodes; is the agent of Systems Manager online on the main node?",
    ),
    "Undeliverable": (
        "its main node could not be reached",
        "the machine is gone or its agent is not online; the same command with --again runs it on another",
    ),
    "Terminated": ("Systems Manager ended it", AGAIN),
}


def explain(found: Found[MpiTarget]) -> Explanation:
    target = found.target
    errors = last_errors(found) if found.run.state is JobState.FAILED else []
    told = _depends(found.run, target) or _told(found.run, errors)
    said = [
        found.run.reason,
        *(f"the log: {line}" for line in errors[-1:]),
        *_broken(found.run, target),
    ]
    return explained(found.run, told, target.machine_image, said)


def _told(run: Run, errors: Sequence[str]) -> Told:
    if run.state in (JobState.WAITING, JobState.STARTING):
        return _waiting(run)
    return _failed(run, errors) if run.state is JobState.FAILED else told_by_state(run)


def _depends(run: Run, target: MpiTarget) -> Told | None:
    """Explain a job by the jobs that it waits for, or that failed before it could begin."""
    if not run.depends_on or run.started_at or run.state is JobState.SUCCEEDED:
        return None
    others = find_dependencies_of(run, target)
    if run.state is not JobState.FAILED:
        waited_for = ", ".join(not_succeeded(others))
        return (f"waits for {waited_for} to succeed first", "") if waited_for else None
    failed = [other.name for other in others if other.state is JobState.FAILED]
    if not failed or run.status in (MAIN_NODE_LOST, *_DETAILS):
        return None
    means = f"failed before it started: it depends on {', '.join(failed)}, which failed"
    return means, f"slipway explain {failed[0]}"


def _broken(run: Run, target: MpiTarget) -> list[str]:
    """List nodes that will not come up by waiting; a job that succeeded did not need them."""
    if run.state is JobState.SUCCEEDED:
        return []
    lasting = [f"{answer.name}: {answer.why}" for answer in find_answers(target) if answer.lasts]
    unjoined = why_nodes_did_not_join(target.name, target.region)
    silent = () if isinstance(unjoined, Unanswered) else unjoined
    return [*lasting, *(f"a node did not join and ended itself: {why}" for why in silent)]


def log_streams(found: Found[MpiTarget]) -> list[str]:
    """List the log streams of a job, those of stderr first.

    The agent names streams by command, instance and step. stderr begins with lines that are needed to read
    the others (platform.py, `log_locator`).
    """
    names = find_streams(found.target.region, found.target.log_group, found.run.id)
    return sorted(names, key=lambda name: (not name.endswith("stderr"), name))


def last_errors(found: Found[MpiTarget]) -> list[str]:
    """Return the last errors, those of ranks last, because they are the cause."""
    logs = reader("logs", found.target.region)
    errors = [
        line
        for stream in log_streams(found)
        for line in last_lines(logs, found.target.log_group, stream, events=_LAST_EVENTS)
        if ERROR in line
    ]
    return sorted(errors, key=lambda line: rank_of(line) is not None)


def _failed(run: Run, errors: Sequence[str]) -> Told:
    if run.status == MAIN_NODE_LOST:
        return f"failed: {run.reason}", _RESUME
    if run.status in _DETAILS:
        means, fix = _DETAILS[run.status]
        return f"failed: {means}", fix
    which = ""
    if run.exit_code == RETRY_EXIT_CODE:
        which = in_attempt(*(last_attempt(errors) or (None, None)))
        own = [line for line in reversed(errors) if line.startswith("[run] ")]
        lost = next((found for line in own if (found := _LOST.search(line))), None)
        if lost:
            return f"failed: host {lost['host']} was lost{which}", _RESUME
    reason = EXIT_CODES.get(run.exit_code or 0)
    if reason:
        return f"failed: {reason.means}{which} (exit code {run.exit_code})", reason.fix
    return f"failed with exit code {run.exit_code}", SEE_LOG


def _waiting(run: Run) -> Told:
    if reason := known_reason(run.reason or ""):
        return f"waits: {reason.means}", reason.fix
    return "waits for the agent of its main node to accept it", "slipway status --on {target} --nodes"
