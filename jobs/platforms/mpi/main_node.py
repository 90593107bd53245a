"""Finds whether the machine that leads a job still exists, which Systems Manager does not tell.

A command on a machine that is gone stays InProgress until the command's own timeout: a day, or two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask, reader
from slipway.jobs.platforms.mpi.request import STATES
from slipway.jobs.words.run import JobState, translate

MAIN_NODE_LOST = "MainNodeLost"  # our own state besides those of Systems Manager
_FORGOTTEN = "InvalidInstanceID.NotFound"  # an hour or so after its end
_MOMENT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    host: str
    at: datetime | None  # None: EC2 does not say

    @property
    def in_words(self) -> str:
        return f"host {self.host} was lost, which led the job"


def find_loss(command: Mapping[str, Any], region: str) -> Loss | Unanswered | None:
    """Return how the main node of a running command was lost; None if it was not."""
    instance_id = next(iter(command.get("InstanceIds", ())), None)
    if instance_id is None:
        return None
    answer = ask(reader("ec2", region), "DescribeInstances", InstanceIds=[instance_id])
    if isinstance(answer, Unanswered):
        return Loss(host=instance_id, at=None) if answer.code == _FORGOTTEN else answer
    for reservation in answer["Reservations"]:
        for machine in reservation["Instances"]:
            if machine["State"]["Name"] in ("shutting-down", "terminated", "stopping", "stopped"):
                name = str(machine.get("PrivateDnsName") or "").partition(".")[0]
                said = _MOMENT.search(str(machine.get("StateTransitionReason") or ""))
                return Loss(
                    host=f"{name} ({machine['InstanceId']})" if name else str(machine["InstanceId"]),
                    at=datetime.fromisoformat(said[1]).replace(tzinfo=UTC) if said else None,
                )
    return None


# The progress of jobs that another one waits for, by Systems Manager's state.
_FORGOTTEN_COMMAND = "InvalidCommandId"  # of a command, after 30 days


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    name: str
    state: JobState
    status: str  # the platform's own word


def find_awaited(job_ids: Iterable[str], region: str) -> list[Awaited]:
    return [_find(job_id, region) for job_id in job_ids]


def _find(job_id: str, region: str) -> Awaited:
    command = find_command(job_id, region)
    if command is None:
        return Awaited(name=job_id, state=JobState.FAILED, status="forgotten")
    if isinstance(command, Unanswered):
        return Awaited(name=job_id, state=JobState.UNKNOWN, status=command.code)
    name, status = str(command.get("Comment") or job_id), str(command["Status"])
    state = translate(STATES, status)
    if not state.is_final and isinstance(find_loss(command, region), Loss):
        return Awaited(name=name, state=JobState.FAILED, status=MAIN_NODE_LOST)
    return Awaited(name=name, state=state, status=status)


def find_command(job_id: str, region: str) -> Mapping[str, Any] | Unanswered | None:
    """Find a command; None if Systems Manager has forgotten it."""
    answer = ask(reader("ssm", region), "ListCommands", CommandId=job_id)
    if isinstance(answer, Unanswered):
        return None if answer.code == _FORGOTTEN_COMMAND else answer
    return next(iter(answer["Commands"]), None)
