"""Answers commands' questions about an MPI cluster, by Systems Manager. request.py builds the requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.platforms.code_bundle import own_containers, pack, upload
from slipway.jobs.platforms.mpi.explain import explain
from slipway.jobs.platforms.mpi.explain import log_streams as streams_of
from slipway.jobs.platforms.mpi.main_node import find_command
from slipway.jobs.platforms.mpi.node.setting import USER
from slipway.jobs.platforms.mpi.nodes import (
    await_nodes,
    find_answers,
    find_members,
    launch_failure,
    shortage,
)
from slipway.jobs.platforms.mpi.request import attempts, build_request
from slipway.jobs.platforms.mpi.runs import (
    find_dependencies_of,
    is_known,
    list_jobs,
    list_runs,
    refresh,
    unfinished_runs,
)
from slipway.jobs.platforms.on_clusters import send_command
from slipway.jobs.platforms.platform import MissingMachine, Prepared, WayIn
from slipway.jobs.platforms.sending import LOOK_PAUSE_SECONDS, LOOKS, Waiting, refuse_malformed
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import CommandRequest, Job, code_words
from slipway.jobs.words.names import CLUSTER_TAG
from slipway.jobs.words.recipes import Recipe
from slipway.jobs.words.run import Found, Run, locator
from slipway.jobs.words.targets import MpiTarget
from slipway.jobs.words.text import Say

__all__ = [
    "explain",
    "find_dependencies_of",
    "is_known",
    "list_jobs",
    "list_runs",
    "refresh",
    "unfinished_runs",
]

MpiPrepared = Prepared[MpiTarget, CommandRequest]

SERVICE = "Systems Manager"
TAKES_ARRAYS = TAKES_IMAGES = False
ENTERED_AS = USER  # sshd of a node accepts no other user
_LONGEST_COMMENT = 100  # of a command (API reference, SendCommand)


def prepare(job: Job, recipe: Recipe, target: MpiTarget, waits_for: tuple[str, ...]) -> MpiPrepared:
    code = pack(own_containers()).digest
    build = partial(build_request, target=target, module=recipe.module, code=code, waits_for=waits_for)
    request = build(job)
    refuse_malformed("ssm", "SendCommand", request.send_command)
    answers = find_answers(target)
    is_short = len(answers) < job.nodes or not all(answer.answered for answer in answers[: job.nodes])
    then = "refuses" if any(answer.lasts for answer in answers[: job.nodes]) else "waits for them"
    missing = (f"{shortage(target, answers, job.nodes)}; submitting {then}",) if is_short else ()
    return Prepared(
        job=job,
        recipe=recipe,
        target=target,
        request=request,
        build=build,
        image=code_words(target.machine_image, code),
        image_digest=f"sha256:{code}",
        waits_for=waits_for,
        attempts=attempts(job),
        warnings=missing,
    )


def refuse_unready(prepared: MpiPrepared) -> None:
    """Refuse nothing: make_ready waits for missing machines, once the job certainly has to be sent."""


def make_ready(prepared: MpiPrepared, say: Say) -> str:
    """Refuse a busy cluster, upload the code, and wait for enough nodes; return the main node's instance."""
    target, request = prepared.target, prepared.request
    refuse_out_of_turn(prepared.name, prepared.waits_for, target)
    # Before any waiting, during which the user may go on editing the code.
    upload(pack(own_containers()), request.digest, target, say)
    return await_nodes(target, prepared.job.nodes, say)


def send(prepared: MpiPrepared, taker: str) -> str:
    """Send the command to the main node and return its id, which is the job's."""
    sent = send_command(prepared.request, prepared.target, taker)
    return str(sent["Command"]["CommandId"])


def find_job_id(name: str, target: MpiTarget) -> str | None:
    return next((job.id for job in list_jobs(target) if job.name == name), None)


def keep_first(sent: str, name: str, target: MpiTarget, waiting: Waiting, say: Say) -> str:
    """Cancel our command if another of this name came first; return the id of the first."""
    for look in range(LOOKS):
        if look:
            waiting.pause(LOOK_PAUSE_SECONDS)
        ids = [job.id for job in list_jobs(target) if job.name == name]
        if sent in ids:
            break
    else:
        return sent
    if ids[0] != sent:
        aws.client("ssm", target.region).cancel_command(CommandId=sent)
        say(f"another machine submitted {name} in the same instant, as {ids[0]}; {sent} was ended")
    return ids[0]


def log_streams(found: Found[MpiTarget], node: int | None) -> list[tuple[int, str]]:
    """List the main node's streams, which hold all lines; each line names its node."""
    return [(0, name) for name in streams_of(found)]


def log_locator() -> Callable[[int, str], int]:
    return locator(launchers_per_node=False)  # mpirun starts one launcher for each rank


def cancel(found: Found[MpiTarget], reason: str) -> None:
    """Stop new attempts, then ask every process on every node to end; each has 30 s to save."""
    target = found.target
    ssm = aws.client("ssm", target.region)
    ssm.cancel_command(CommandId=found.run.id)
    # By tag: if instances are named, one without an agent makes AWS refuse the command for all.
    ssm.send_command(
        DocumentName=target.stop_document,
        Targets=[{"Key": f"tag:{CLUSTER_TAG}", "Values": [target.name]}],
        MaxConcurrency="100%",
        MaxErrors="100%",
        Parameters={"Job": [found.run.name]},
        Comment=reason[:_LONGEST_COMMENT],
    )


def node_rows(target: MpiTarget) -> Sequence[Mapping[str, object]]:
    answers = find_answers(target)
    return [{**asdict(each), "main": index == 0} for index, each in enumerate(answers)]


def way_into(run: Run, target: MpiTarget) -> WayIn:
    """Return the node that leads the cluster's one job, and the oldest of the others."""
    command = find_command(run.id, target.region)
    main = next(iter(command.get("InstanceIds", ())), None) if isinstance(command, Mapping) else None
    members = [member.instance_id for member in find_members(target.name, target.region)]
    return WayIn(instances=sorted(members, key=lambda each: each != main)[: run.nodes])


def missing_machines(target: MpiTarget) -> Sequence[MissingMachine]:
    failure = launch_failure(target)
    if isinstance(failure, Unanswered):
        return [failure]
    why, fix = failure
    return [(f"the last node that '{target.name}' asked for did not start: {why}", fix)] if why else []


# Decides whose turn it is on a cluster that runs one job at a time: a new job runs now, or after all
# unfinished ones. At most so many run or wait: the main node's agent carries out five commands at a time
# (amazon-ssm-agent, README, Mds.CommandWorkersLimit). Each waiting job is one of them, and so is what
# `slipway cancel` sends.
MOST_UNFINISHED = 4


class Busy(SlipwayError):
    """The cluster runs another job, or has the most that may wait."""


def refuse_out_of_turn(name: str, waits_for: Iterable[str], target: MpiTarget) -> None:
    """Refuse a job unless it waits for all unfinished jobs of the cluster, directly or through others.

    The nodes refuse a second job, too; asking here saves a start of machines.
    """
    others = [run for run in unfinished_runs(target) if run.name != name]
    ahead = _ahead(waits_for, {run.id: run for run in others})
    for other in others:
        if other.id not in ahead:
            last = others[-1].name
            raise Busy(
                f"cluster '{target.name}' runs {other.name}, and one job at a time",
                hint=f"to run it afterwards: --depends-on {last}; to wait for that: slipway logs {last} "
                f"--follow; to end it: slipway cancel {other.name}",
            )
    if len(others) >= MOST_UNFINISHED:
        raise Busy(
            f"{len(others)} jobs run or wait on cluster '{target.name}'; at most {MOST_UNFINISHED} can",
            hint=f"wait for one: slipway logs {others[0].name} --follow",
        )


def _ahead(waits_for: Iterable[str], unfinished: Mapping[str, Run]) -> set[str]:
    """Return the unfinished jobs that have ended once these have: these jobs, and all that they wait for."""
    left, ahead = list(waits_for), set[str]()
    while left:
        job_id = left.pop()
        if job_id in unfinished and job_id not in ahead:
            ahead.add(job_id)
            left += unfinished[job_id].depends_on
    return ahead
