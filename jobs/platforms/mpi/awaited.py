"""How far the jobs are that another one waits for, by the word of Systems Manager."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask, reader
from slipway.jobs.platforms.mpi.main_node import MAIN_NODE_LOST, find_loss
from slipway.jobs.platforms.mpi.request import STATES
from slipway.jobs.words.states import JobState, translate

_FORGOTTEN = "InvalidCommandId"  # of a command, after 30 days


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    name: str
    state: JobState
    status: str  # the platform's own word


def find_awaited(job_ids: Iterable[str], region: str) -> list[Awaited]:
    return [_find(job_id, region) for job_id in job_ids]


def _find(job_id: str, region: str) -> Awaited:
    command = _find_command(job_id, region)
    if command is None:
        return Awaited(name=job_id, state=JobState.FAILED, status="forgotten")
    if isinstance(command, Unanswered):
        return Awaited(name=job_id, state=JobState.UNKNOWN, status=command.code)
    name, status = str(command.get("Comment") or job_id), str(command["Status"])
    state = translate(STATES, status)
    if not state.is_final and find_loss(command, region):
        return Awaited(name=name, state=JobState.FAILED, status=MAIN_NODE_LOST)
    return Awaited(name=name, state=state, status=status)


def _find_command(job_id: str, region: str) -> Mapping[str, Any] | Unanswered | None:
    """Return a command; None where Systems Manager has forgotten it."""
    answer = ask(reader("ssm", region), "ListCommands", CommandId=job_id)
    if isinstance(answer, Unanswered):
        return None if answer.code == _FORGOTTEN else answer
    return next(iter(answer["Commands"]), None)
