"""Reads the jobs of an MPI cluster into Runs, from Systems Manager and the cluster's bucket.

A command is kept for 30 days. What it does not say (recipe, nodes) is in the request that it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, answered, ask, no_answer, reader
from slipway.jobs.platforms.mpi.main_node import MAIN_NODE_LOST, Loss, find_command, find_loss
from slipway.jobs.platforms.mpi.request import STATES
from slipway.jobs.platforms.on_clusters import listed_once, read_request
from slipway.jobs.words import mpi
from slipway.jobs.words.job import code_words
from slipway.jobs.words.mpi import MpiJob, begun_at
from slipway.jobs.words.run import (
    ERROR,
    RETRY_EXIT_CODE,
    SECONDS_PER_HOUR,
    Attempt,
    Found,
    JobState,
    Listed,
    Run,
    cost,
    last_error,
    not_succeeded,
    price_of,
    translate,
)
from slipway.jobs.words.targets import MpiTarget

WAITS = "WaitsForOthers"  # our own state besides those of Systems Manager
_MOST_AT_ONCE = 8  # of the calls that tell one job each
_DELAYED = "Delayed"
_FAILED = "Failed"
_PLAIN = ("Success", _FAILED, "InProgress", "Pending", _DELAYED)  # they say no more than the state does
_LOST = (" was lost", " does not answer")  # in the words of jobs/platforms/mpi/node/run.py


def find_commands(target: MpiTarget) -> list[Mapping[str, Any]]:
    """List the commands of the cluster's jobs, the first one first."""
    filters = [{"key": "DocumentName", "value": target.run_document}]
    pages = reader("ssm", target.region).get_paginator("list_commands").paginate(Filters=filters)
    found = [command for page in pages for command in page["Commands"]]
    return sorted(found, key=lambda each: (each["RequestedDateTime"], each["CommandId"]))


def list_jobs(target: MpiTarget) -> list[Listed]:
    """List all jobs; of jobs with the same name, the first was kept."""
    return listed_once(
        (str(each["CommandId"]), str(each.get("Comment", "")), _moment(each["RequestedDateTime"]))
        for each in find_commands(target)
    )


def list_runs(target: MpiTarget) -> list[Run]:
    return _read(find_commands(target), target)


def unfinished_runs(target: MpiTarget) -> list[Run]:
    """Read the unfinished jobs, the first one first."""
    unfinished = [
        each for each in find_commands(target) if not translate(STATES, str(each.get("Status"))).is_final
    ]
    return [run for run in _read(unfinished, target) if not run.state.is_final]


def _read(commands: Sequence[Mapping[str, Any]], target: MpiTarget) -> list[Run]:
    with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        return [found.run for found in pool.map(lambda each: _found(each, target), commands)]


def refresh(job_id: str, target: MpiTarget) -> Found[MpiTarget] | None:
    command = _find_command(job_id, target)
    return _found(command, target) if command else None


def is_known(job_id: str, target: MpiTarget) -> bool:
    return _find_command(job_id, target) is not None


def find_dependencies_of(run: Run, target: MpiTarget) -> list[Run]:
    found = [refresh(job_id, target) for job_id in run.depends_on]
    return [dependency.run for dependency in found if dependency]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCommand:
    """Holds what AWS says of one command."""

    command: Mapping[str, Any]
    invocation: Mapping[str, Any]
    job: MpiJob | None
    loss: Loss | None = None
    awaited: Sequence[Run] = ()  # the runs that an unfinished job waits for


def read_run(known: KnownCommand, target: MpiTarget, now: datetime | None = None) -> Run:
    command, invocation, job, loss = known.command, known.invocation, known.job, known.loss
    state, details, stopped = _standing(known)
    started = _started(known)
    if state is JobState.RUNNING and started is None and known.awaited:
        state, details = JobState.WAITING, WAITS
    seconds: float | None = 0.0
    if started is not None:
        until = stopped if state.is_final else (now or datetime.now(UTC))
        seconds = (until - started).total_seconds() if until else None
    nodes = job.nodes if job else None
    exit_code = _exit_code(invocation) if state.is_final and (started or not _waits(job)) else None
    attempt = Attempt(started_at=started, stopped_at=stopped, exit_code=exit_code, reason=None)
    return Run(
        id=str(command["CommandId"]),
        name=str(command.get("Comment", "")),
        target=target.name,
        region=target.region,
        state=state,
        status=details,
        reason=loss.in_words if loss else _reason(state, details, invocation),
        recipe=job.recipe if job else None,
        nodes=nodes,
        instance_type=target.instance_type,
        created_at=_moment(command.get("RequestedDateTime")),
        started_at=started,
        stopped_at=stopped,
        attempts=(attempt,) if stopped else (),
        exit_code=exit_code,
        image=code_words(target.machine_image, job.code) if job else None,
        image_digest=f"sha256:{job.code}" if job else None,
        hours=None if seconds is None else round(seconds / SECONDS_PER_HOUR, 4),
        cost=cost(nodes, seconds, price_of(target)),
        depends_on=job.waits_for if job else (),
    )


def _standing(known: KnownCommand) -> tuple[JobState, str, datetime | None]:
    """Return the state, a more exact word for it, and when the job ended."""
    if known.loss:
        return JobState.FAILED, MAIN_NODE_LOST, known.loss.at
    command, invocation = known.command, known.invocation
    status = str(invocation.get("Status") or command.get("Status", "unknown"))
    # Without spaces: the API reference writes "Delivery Timed Out", the service DeliveryTimedOut.
    details = str(invocation.get("StatusDetails") or command.get("StatusDetails") or status).replace(" ", "")
    state = translate(STATES, status)
    return state, details, _moment(invocation.get("ExecutionEndDateTime")) if state.is_final else None


def _started(known: KnownCommand) -> datetime | None:
    """Return when the job itself began: its command may have waited for others until then.

    Systems Manager shows a command's output only after its end; until then the other jobs tell.
    """
    started = _moment(known.invocation.get("ExecutionStartDateTime"))
    if started is None or not _waits(known.job):
        return started
    if said := begun_at(str(known.invocation.get("StandardErrorContent", ""))):
        return said
    if not known.awaited or not_succeeded(known.awaited):
        return None
    return max(started, *(run.stopped_at for run in known.awaited if run.stopped_at))


def _waits(job: MpiJob | None) -> bool:
    return job is not None and bool(job.waits_for)


def _exit_code(invocation: Mapping[str, Any]) -> int | None:
    code = int(invocation.get("ResponseCode", -1))
    return code if code >= 0 else None


def _find_command(job_id: str, target: MpiTarget) -> Mapping[str, Any] | None:
    # No answer does not mean no job: it would be sent again.
    found = answered(find_command(job_id, target.region))
    return found if found and found["DocumentName"] == target.run_document else None


def _found(command: Mapping[str, Any], target: MpiTarget) -> Found[MpiTarget]:
    invocation: Mapping[str, Any] = {}
    if instances := command.get("InstanceIds"):
        answer = ask(
            reader("ssm", target.region),
            "GetCommandInvocation",
            CommandId=command["CommandId"],
            InstanceId=instances[0],
        )
        if isinstance(answer, Unanswered) and answer.passes:  # without it a lost machine is a failed job
            raise no_answer(answer)
        invocation = {} if isinstance(answer, Unanswered) else answer
    job = read_request(str(command.get("Comment", "")), target, mpi.decode)
    detail = {**command, "Invocation": invocation}
    if job is not None:  # no answer of Systems Manager has the recipe's settings
        detail["RecipeArguments"] = list(job.arguments)
    unfinished = _is_unfinished({**command, **invocation})
    loss = _loss(command, invocation, target)
    others = [refresh(each, target) for each in job.waits_for] if job and unfinished else []
    awaited = [other.run for other in others if other]
    known = KnownCommand(command=command, invocation=invocation, job=job, loss=loss, awaited=awaited)
    return Found(run=read_run(known, target), target=target, detail=detail)


def _loss(command: Mapping[str, Any], invocation: Mapping[str, Any], target: MpiTarget) -> Loss | None:
    """Return how the job lost its main node: before it ended, or by failing as the node shut down."""
    status = {**command, **invocation}.get("Status")
    if not _is_unfinished({"Status": status}) and status != _FAILED:
        return None
    loss, ended = find_loss(command, target.region), _moment(invocation.get("ExecutionEndDateTime"))
    if isinstance(loss, Unanswered):
        if loss.passes:
            raise no_answer(loss)
        return None
    if loss and status == _FAILED and (loss.at is None or ended is None or ended < loss.at):
        return None  # the node was lost after the job ended
    return loss


def _is_unfinished(said: Mapping[str, Any]) -> bool:
    return translate(STATES, str(said.get("Status"))) in (JobState.WAITING, JobState.RUNNING)


def _reason(state: JobState, details: str, invocation: Mapping[str, Any]) -> str | None:
    """Return the last thing that the node said about the job, if the invocation holds it."""
    if state is JobState.WAITING and details == _DELAYED:
        return str(invocation.get("StandardErrorContent", "")) or None
    if state is not JobState.FAILED:
        return None
    if details not in _PLAIN:
        return details
    lines = str(invocation.get("StandardErrorContent", "")).splitlines()
    lost = [line for line in lines if ERROR in line and any(words in line for words in _LOST)]
    is_of_machines = _exit_code(invocation) == RETRY_EXIT_CODE  # a lost machine explains the ranks' errors
    last = (last_error(lost) if is_of_machines else None) or last_error(lines)
    return last.partition(ERROR)[2] if last else None


def _moment(value: object) -> datetime | None:
    """Convert a command's time, or an invocation's text, which is empty until then."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if not isinstance(value, str) or not value:
        return None
    try:
        read = datetime.fromisoformat(value)
    except ValueError:
        return None
    return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
