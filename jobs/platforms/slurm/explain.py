"""Explains in one sentence, by Slurm's reason and the log, why a job on Slurm is not running or failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipway.jobs.cloud.aws import reader
from slipway.jobs.cloud.objects import find_streams, last_lines
from slipway.jobs.platforms.reasons import Told, counted, explained, machine_reason
from slipway.jobs.platforms.slurm.login_node import advice
from slipway.jobs.platforms.slurm.request import STATES
from slipway.jobs.platforms.slurm.runs import describe, first_failed
from slipway.jobs.words.run import (
    AGAIN,
    ERROR,
    EXIT_CODES,
    LONGER,
    SEE_LOG,
    Explanation,
    Found,
    JobState,
    Run,
    last_error,
    translate,
)
from slipway.jobs.words.slurm import UNFIT, SlurmNode, SlurmRecord
from slipway.jobs.words.targets import SlurmTarget

_LAST_EVENTS = 200
_BAD_STATES = ("DRAIN", "FAIL", "NOT_RESPONDING", "INVALID_REG")


def explain(found: Found[SlurmTarget]) -> Explanation:
    run, detail = found.run, found.detail
    refused: Sequence[str] = detail["Refused"]  # what AWS says of nodes that the job lacks
    if refused:
        reason = machine_reason(refused[0])
        means = reason.means if reason else "AWS starts no node for it"
        told = f"waits: {means}", advice(refused[0], found.target, found.target.node_group)
    else:
        told = _told(run, detail["Job"].reason, detail.get("Compile"))
    nodes: tuple[SlurmNode, ...] = detail.get("Nodes", ()) if run.state is not JobState.SUCCEEDED else ()
    error = _last_error(found) if run.state is JobState.FAILED else None
    said = [
        run.reason,
        f"the log: {error}" if error else "",
        *(describe(elements, detail["Count"]) if (elements := detail.get("Elements")) else ()),
        *(
            f"node {node.name} is {node.state}: {node.reason or 'Slurm does not say why'}"
            for node in nodes
            if not is_fit(node) or node.reason.startswith(UNFIT) or machine_reason(node.reason)
        ),
        *detail.get("Notes", ()),
    ]
    return explained(run, told, found.target.machine_image, said)


def log_streams(found: Found[SlurmTarget]) -> list[str]:
    """List the streams of a submission, those of its compile job first: NAME/ID-PHASE-ATTEMPT."""
    names = find_streams(found.target.region, found.target.log_group, f"{found.run.name}/")
    return sorted(names, key=_stream_order)


def _stream_order(name: str) -> tuple[str, int]:
    """Order streams by job and attempt: compile comes before run in the alphabet, too."""
    job, _, attempt = name.rpartition("-")
    return job.rpartition("-")[2], int(attempt) if attempt.isdigit() else 0


def _told(run: Run, reason: str, compiled: SlurmRecord | None) -> Told:
    if compiled is not None and (told := _about_compiling(run, compiled)):
        return told
    if run.state is JobState.FAILED:
        return _failed(run)
    if run.state in (JobState.WAITING, JobState.STARTING):
        meaning = meaning_of(reason or "None")
        if meaning is None:
            return f"waits: Slurm says {reason}", ""
        return f"waits: {meaning[0]}", meaning[1]
    if run.state is JobState.RUNNING:
        return f"runs on {counted(run.nodes, 'node')}", ""
    if run.state is JobState.SUCCEEDED:
        return "succeeded", ""
    return (
        f"is in a state that Slipway does not know: {run.status}",
        "on the login node: scontrol show job {id}",
    )


def _about_compiling(run: Run, compiled: SlurmRecord) -> Told | None:
    """Explain the job that compiles the graphs, as long as the run depends on it."""
    state = translate(STATES, compiled.state)
    if state is JobState.FAILED and run.state is not JobState.SUCCEEDED:
        return f"will not start: compile job {compiled.id} ended as {compiled.state}", SEE_LOG
    if run.state is JobState.WAITING and not state.is_final:
        meaning = meaning_of(compiled.reason) if state is JobState.WAITING else None
        how = f"waits: {meaning[0]}" if meaning else f"is {compiled.state}"
        return f"waits for its graphs: compile job {compiled.id} {how}", meaning[1] if meaning else ""
    return None


def _failed(run: Run) -> Told:
    if run.status in ENDS:
        means, fix = ENDS[run.status]
        return f"failed: {means}", fix
    if known := EXIT_CODES.get(run.exit_code or 0):
        return f"failed: {known.means} (exit code {run.exit_code})", known.fix
    if meaning := meaning_of(run.reason or ""):
        return f"failed: {meaning[0]}", meaning[1]
    return f"failed with exit code {run.exit_code}", SEE_LOG


def is_fit(node: SlurmNode) -> bool:
    """Return True if Slurm would give the node a job, once it is up."""
    words = node.state.split("+")
    return words[0] != "DOWN" and not any(word.startswith(_BAD_STATES) for word in words)


def _last_error(found: Found[SlurmTarget]) -> str | None:
    """Return the last error of the newest stream, that of a rank if there is one."""
    streams, target = log_streams(found), found.target
    if failed := first_failed(found.detail.get("Elements", ())):  # one element of an array
        streams = [name for name in streams if name.startswith(f"{found.run.name}/{failed.id}-")]
    if not streams:
        return None
    lines = last_lines(reader("logs", target.region), target.log_group, streams[-1], events=_LAST_EVENTS)
    return last_error([line for line in lines if ERROR in line])


# Slurm's reasons of a job that waits or ended, each with its meaning and what to do. A new one is a row. The
# words are those of squeue(1), "JOB REASON CODES", of releases 22.05 to 25.11. A key is a reason or its
# beginning; `{job}`, `{target}` and `{id}` are filled in.
REASONS: Mapping[str, tuple[str, str]] = {
    "None": ("the scheduler has not looked at it yet", ""),
    "Resources": (
        "it waits for nodes, which other jobs have or PCS is starting",
        "slipway status --on {target} --nodes",
    ),
    "Priority": ("jobs before it in the queue wait for nodes as well", "slipway status --all --on {target}"),
    "DependencyNeverSatisfied": (
        "a job that it waits for has failed, so it will never start",
        "slipway explain on that job; the same command with --again runs both once more",
    ),
    "Dependency": ("it waits for another job to succeed", "slipway status --all --on {target}"),
    "BeginTime": (
        "it is back in the queue; Slurm lets a requeued job wait two minutes, and starts it by itself",
        "",
    ),
    "JobHeldAdmin": (
        "Slurm holds it: most often a node's prolog failed where nohold_on_prolog_fail is not set",
        "look at the drained nodes, then on the login node: scontrol release {id}",
    ),
    "JobHoldMaxRequeue": ("it was requeued too often", "look at its log, then: scontrol release {id}"),
    "launch failed requeued held": (
        "a node could not start it, and Slurm holds it",
        "look at the drained nodes, then on the login node: scontrol release {id}",
    ),
    "JobHeldUser": ("somebody holds it", "scontrol release {id} on the login node"),
    "JobArrayTaskLimit": ("its array runs as many elements at once as it may", ""),
    "PartitionNodeLimit": (
        "it asks for more nodes than the queue has",
        "cancel it, and submit it with fewer --nodes: slipway cancel {job}",
    ),
    "PartitionTimeLimit": (
        "it asks for more time than the queue gives",
        "cancel it, and submit it with a shorter --timeout-hours: slipway cancel {job}",
    ),
    "PartitionDown": ("the queue is down", "scontrol show partition on the login node"),
    "PartitionInactive": ("the queue is inactive", "scontrol show partition on the login node"),
    "PartitionConfig": (
        "it asks for what no node of the queue has, most often more nodes than there are",
        "cancel it, and submit it with fewer --nodes: slipway cancel {job}",
    ),
    "ReqNodeNotAvail": (
        "nodes that it needs are down, drained or being stopped",
        "slipway status --on {target} --nodes says which, and why",
    ),
    "NodeDown": ("a node that it needs is down", "slipway status --on {target} --nodes"),
    "BadConstraints": ("no node can ever run it", "slipway cancel {job}; submit it with other --nodes"),
    "Reservation": ("it waits for its reservation", "scontrol show reservation on the login node"),
    "Licenses": ("it waits for a licence", "scontrol show licenses on the login node"),
    "Prolog": ("its nodes are being checked before it starts", ""),
    "Assoc": (
        "a limit of its account is reached",
        "sacctmgr show associations on the login node; wait, or have the limit raised",
    ),
    "QOS": ("a limit of its quality of service is reached", "sacctmgr show qos on the login node"),
    "NonZeroExitCode": ("its program failed", "slipway logs {job}"),
    "RaisedSignal": ("its program was killed by a signal", "slipway logs {job}"),
    "TimeLimit": ("its time was over before its ranks had saved", LONGER),
    "OutOfMemory": ("a node ran out of memory", "set a smaller micro_batch or fewer workers"),
    "JobLaunchFailure": ("a node could not start it", "slipway status --on {target} --nodes"),
}

# How a job ended, if Slurm gives no other reason.
ENDS: Mapping[str, tuple[str, str]] = {
    "CANCELLED": ("somebody cancelled it", AGAIN),
    "TIMEOUT": REASONS["TimeLimit"],
    "OUT_OF_MEMORY": REASONS["OutOfMemory"],
    "NODE_FAIL": ("a node failed and it was not requeued", AGAIN),
    "BOOT_FAIL": ("its nodes did not come up", "slipway status --on {target} --nodes"),
    "PREEMPTED": ("another job took its nodes", AGAIN),
    "DEADLINE": ("its deadline passed", AGAIN),
}


def meaning_of(reason: str) -> tuple[str, str] | None:
    """Return what a reason means; the longest match wins: Slurm appends details to some."""
    fits = [known for known in REASONS if known in reason]
    return REASONS[max(fits, key=len)] if fits else None
