"""`slipway-node run KEY`: runs one job on the main node, from its request in S3 to its ranks' exit code."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from slipway.containers.runtime.contract import variables
from slipway.jobs.cloud.aws import client, reader
from slipway.jobs.platforms.mpi.node.facts import NodeFacts, decode_facts, differences, find_program
from slipway.jobs.platforms.mpi.node.hosts import SSH_FAILED, ask_all
from slipway.jobs.platforms.mpi.node.instance import read_instance
from slipway.jobs.platforms.mpi.node.job_credentials import become_cluster_user
from slipway.jobs.platforms.mpi.node.join import write_roster
from slipway.jobs.platforms.mpi.node.lock import CHECK, CannotRun, await_others, lock_cluster
from slipway.jobs.platforms.mpi.node.mpirun import Ended, MpirunWork, StopRequested, run_everywhere
from slipway.jobs.platforms.mpi.node.setting import NodePaths, Setup
from slipway.jobs.platforms.mpi.nodes import find_members
from slipway.jobs.platforms.on_nodes import ensure_unpacked, rank_python, scratch
from slipway.jobs.words import mpi
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.mpi import REPLACED_SECONDS, Answer, Member, MpiJob, Readiness
from slipway.jobs.words.names import derived_name
from slipway.jobs.words.run import RETRY_EXIT_CODE

_ENDING_SECONDS = 60.0  # for the ranks of a cancelled job to save
_LOOK_AGAIN_SECONDS = 10.0  # until it looks again at missing nodes
_STOPPED_CODE = 143  # 128 + SIGTERM, the launcher's exit code after it
_SCRATCH = "slipway-run-"
_NOT_STARTED = Ended(code=RETRY_EXIT_CODE, dead=())
_PREFIX = "[run] "  # other prefixes are "[3] " of rank 3 and "[node 3] " of its launcher


def run_job(where: NodePaths, setup: Setup, key: str) -> int:
    job = await_others(_read_request(setup, key), setup.region, say)
    # Only root may write the roster, and ask which machine this is. Missing nodes are found by the first
    # attempt.
    with suppress(_Missing):
        _members_of(where, setup, job)
    become_cluster_user()
    signal.signal(signal.SIGTERM, _stop)
    try:
        with lock_cluster(where, job.name, _ENDING_SECONDS) as lock, ExitStack() as ending:
            # While this job has the lock, its nodes can be no other job's.
            ending.callback(release, setup, say)
            folder = ending.enter_context(scratch(_SCRATCH))
            return _attempts(where, setup, job, folder, lock)
    except StopRequested as stop:
        say(f"error: {job.name} ended before its ranks began: {stop}")
        return _STOPPED_CODE


def say(line: str) -> None:
    """Print a line; the agent of Systems Manager that reads it may be gone, and the job goes on."""
    with suppress(OSError):
        print(f"{_PREFIX}{line}", file=sys.stderr, flush=True)


def _attempts(where: NodePaths, setup: Setup, job: MpiJob, folder: Path, lock: int) -> int:
    for attempt in range(1, job.attempts + 1):
        try:
            members = _members_of(where, setup, job)
            protect(setup, members, say)
            work = _prepare(where, setup, job, members, attempt)
        except (_Missing, DeadHost) as problem:  # fails the attempt, as a machine lost later would
            say(f"error: {_which(job, attempt)} did not start: {problem.message}; {problem.hint}")
            ended = _NOT_STARTED
        else:
            ended = run_everywhere(where, work, folder, lock, say)
        if ended.code != RETRY_EXIT_CODE or attempt == job.attempts:
            break
        say(f"{_which(job, attempt)} failed on its machines; the next resumes once all answer")
        try:
            await_members(where, setup, job)
        except (_Missing, DeadHost) as problem:
            minutes = REPLACED_SECONDS // 60
            say(f"error: {problem.message}; it was not replaced in {minutes} minutes; {problem.hint}")
            break
    # The last line says how the job ended; `slipway explain` reads the attempt from it.
    which = _which(job, attempt)
    lost = f", host {', '.join(ended.dead)} was lost" if ended.dead else ""
    say(f"{'error: ' if ended.code else ''}{job.name} ended with exit code {ended.code}, {which}{lost}")
    return ended.code


def await_members(where: NodePaths, setup: Setup, job: MpiJob) -> list[Member]:
    """Wait until there are enough nodes for another attempt: the group needs minutes to replace one."""
    ends = time.monotonic() + REPLACED_SECONDS
    while True:
        try:
            members = _members_of(where, setup, job)
            agree(where, [member.name for member in members], setup.mpi)
            return members
        except (_Missing, DeadHost):
            if time.monotonic() > ends:
                raise
            time.sleep(_LOOK_AGAIN_SECONDS)


def _which(job: MpiJob, attempt: int) -> str:
    return f"attempt {attempt} of {job.attempts}"


def _prepare(
    where: NodePaths, setup: Setup, job: MpiJob, members: Sequence[Member], attempt: int
) -> MpirunWork:
    """Find every problem of the nodes before a rank starts."""
    code = ensure_code(where, setup, job.code, reader("s3", setup.region))
    if setup.file_system_mount is None:
        _fetch_everywhere(where, members, job.code)
    facts = agree(where, [member.name for member in members], setup.mpi)
    program = find_program(setup.mpi)
    assert program is not None, "agree found the version of it"
    python = rank_python(where.root)
    return MpirunWork(
        job=job.name,
        members=members,
        module=job.module,
        arguments=job.arguments,
        environment={
            **python.variables,
            **job.environment,
            "AWS_REGION": setup.region,
            variables.ATTEMPT: str(attempt),
        },
        processes_per_node=job.processes_per_node,
        mpi=setup.mpi,
        program=program,
        facts=facts,
        efa_interfaces=job.efa_interfaces,
        code=code,
        python=python.program,
    )


def _fetch_everywhere(where: NodePaths, members: Sequence[Member], digest: str) -> None:
    answers = ask_all(where, [member.name for member in members], ["code", digest])
    failed = [each for each in answers if each.error]
    refuse_dead({each.host: each.error for each in failed if each.code == SSH_FAILED})
    if failed:
        raise CannotRun(
            f"host {failed[0].host} could not fetch the job's code: {failed[0].error}",
            hint="submit the job again; if it fails again, end the instance, and its group starts another",
        )


def _read_request(setup: Setup, key: str) -> MpiJob:
    answer = reader("s3", setup.region).get_object(Bucket=setup.bucket, Key=key)
    job = mpi.decode(answer["Body"].read().decode(), where=f"s3://{setup.bucket}/{key}")
    if job.mpi != setup.mpi:
        raise CannotRun(
            f"job {job.name} is for {job.mpi}, and these nodes have {setup.mpi}",
            hint="deploy the cluster again: its target and its nodes are of two deployments",
        )
    return job


def _members_of(where: NodePaths, setup: Setup, job: MpiJob) -> list[Member]:
    """Choose as many nodes as the job asks for; the first is this one, the main node."""
    instance, members = read_instance(), find_members(setup.cluster, setup.region)
    if os.access(where.own, os.W_OK):
        write_roster(where, members)
    if len(members) < job.nodes:
        alive = ", ".join(member.name for member in members)
        raise _Missing(
            f"job {job.name} asks for {job.nodes} nodes and {len(members)} run: {alive}",
            hint=f"slipway status --on {setup.cluster} shows which are missing",
        )
    if members[0].instance_id != instance.id:
        raise CannotRun(
            f"this is {instance.id} ({instance.address}), but the main node is {members[0].instance_id} "
            f"({members[0].name})",
            hint="submit the job again: the main node has changed meanwhile",
        )
    return members[: job.nodes]


class _Missing(CannotRun):
    exit_code = RETRY_EXIT_CODE


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise StopRequested(f"{signal.Signals(number).name} received")


# The folder of a job's code on a node: fetched once by its digest, where all nodes find it.


def ensure_code(where: NodePaths, setup: Setup, digest: str, s3: Any) -> Path:
    """Fetch code: to shared files if there are any, else to where only the jobs' user writes."""
    root = Path(setup.file_system_mount) / "slipway" if setup.file_system_mount else where.run
    return ensure_unpacked(root / "code" / digest, digest, setup.bucket, s3)


# Stops Auto Scaling from removing the nodes of a running job: idle and timed rules wait until it is over. A
# failure here never fails the job, which runs without protection, too; its log says so.
_MOST = 50  # limit of SetInstanceProtection, and of protected instances in a group

Say = Callable[[str], None]


def protect(setup: Setup, members: Sequence[Member], say: Say) -> None:
    try:
        _send(setup, members, protected=True)
    except Exception as error:  # noqa: BLE001 - whatever AWS or the way to it says
        say(f"warning: nodes are not protected from scaling in: {type(error).__name__}: {error}")


def release(setup: Setup, say: Say) -> bool:
    """Unprotect all nodes, whichever job protected them; return True if that worked."""
    try:
        _send(setup, find_members(setup.cluster, setup.region), protected=False)
    except Exception as error:  # noqa: BLE001 - the same
        say(f"warning: nodes stay protected from scaling in: {type(error).__name__}: {error}")
        return False
    return True


def _send(setup: Setup, members: Sequence[Member], *, protected: bool) -> None:
    client("autoscaling", setup.region).set_instance_protection(
        AutoScalingGroupName=derived_name("node-group", setup.cluster),
        InstanceIds=[member.instance_id for member in members[:_MOST]],
        ProtectedFromScaleIn=protected,
    )


# Checks that all hosts of a job answer and have the same software; asks all at once, before a rank starts.


class DeadHost(SlipwayError):
    """A machine failed the job; another attempt or another machine may succeed."""

    exit_code = RETRY_EXIT_CODE


class UnlikeHosts(SlipwayError):
    """The hosts differ: ranks would train two models as one, or wait for each other forever."""

    exit_code = 2


def agree(where: NodePaths, hosts: Sequence[str], mpi: str) -> NodeFacts:
    """Return the facts that all hosts have in common; refuse hosts that differ or do not answer."""
    facts, problems = ask_facts(where, hosts, mpi)
    refuse_dead({host: why for host, why in problems.items() if host not in facts})
    if problems:
        raise UnlikeHosts(
            "; ".join(problems.values()),
            hint="replace the nodes so that all start from one AMI; to end a leftover job: slipway cancel",
        )
    return facts[hosts[0]]


def refuse_dead(why_silent: Mapping[str, str]) -> None:
    """Refuse hosts that do not answer, given with the reason of each."""
    if why_silent:
        named = "; ".join(f"host {host} does not answer: {why}" for host, why in why_silent.items())
        raise DeadHost(named, hint="end the instance, and its group starts another")


def ask_facts(
    where: NodePaths, hosts: Sequence[str], mpi: str
) -> tuple[dict[str, NodeFacts], dict[str, str]]:
    """Return the facts of the hosts that answered, and the problems by host."""
    answers = ask_all(where, hosts, ["facts", mpi])
    facts = {each.host: found for each in answers if (found := decode_facts(each.output)) is not None}
    problems = {
        each.host: each.error or "it said nothing about itself" for each in answers if each.host not in facts
    }
    main = next(iter(facts), None)
    for host, found in facts.items():
        assert main is not None
        wrong = differences(host, found, main, facts[main])
        if found.mpi.startswith("none"):
            wrong.append(f"{host} has no {mpi} ({found.mpi})")
        if found.running:
            wrong.append(f"{host} still runs {found.running}")
        if wrong:
            problems[host] = ", ".join(wrong)
    return facts, problems


# Checks whether the cluster is ready: after its nodes change, the main node runs an all-reduce of all.
_SECONDS = {
    variables.RENDEZVOUS_SECONDS: "60",
    variables.COLLECTIVE_SECONDS: "60",
    variables.TIMEOUT_SECONDS: "120",
}


def check(where: NodePaths, setup: Setup, members: Sequence[Member]) -> Readiness:
    """Run the all-reduce as the cluster's user, without nodes that do not answer."""
    with lock_cluster(where, CHECK) as lock, scratch(_SCRATCH) as folder:
        facts, problems = ask_facts(where, [member.name for member in members], setup.mpi)
        unlike = {host for host in problems if host in facts and not facts[host].running}
        able = [member for member in members if member.name not in problems]
        program = find_program(setup.mpi)
        if able and program:
            work = MpirunWork(
                job=CHECK,
                members=able,
                module="slipway.jobs.platforms.mpi.node.allreduce",
                arguments=(),
                environment={variables.JOB: CHECK, variables.NODES: str(len(able)), **_SECONDS},
                processes_per_node=1,
                mpi=setup.mpi,
                program=program,
                facts=facts[able[0].name],
                efa_interfaces=0,
                code=None,
            )
            ended = run_everywhere(where, work, folder, lock, say)
            problems |= _problems(able, ended.code, ended.dead)
    return summarise(members, problems, setup.nodes, int(time.time()), unlike)


def summarise(
    members: Sequence[Member],
    problems: Mapping[str, str],
    wanted: int,
    at: int,
    lasting: Collection[str] = (),
) -> Readiness:
    """Summarise the answers; `lasting` hosts have problems that waiting does not solve."""
    answers = tuple(
        Answer(
            name=member.name,
            instance_id=member.instance_id,
            answered=member.name not in problems,
            why=problems.get(member.name, ""),
            lasts=member.name in lasting,
        )
        for member in members
    )
    ready = len(answers) >= wanted and all(answer.answered for answer in answers)
    return Readiness(nodes=answers, ready=ready, at=at)


def _problems(able: Sequence[Member], code: int, dead: Sequence[str]) -> dict[str, str]:
    if code == 0:
        return {}
    if dead:
        return dict.fromkeys(dead, "it was lost during the all-reduce")
    why = f"the all-reduce of all nodes ended with exit code {code}; the main node's log says why"
    return {each.name: why for each in able}
