"""`slipway-node run KEY`, on the main node: one job, from its request in S3 to the exit code of its ranks."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from slipway.containers.runtime.contract import variables
from slipway.jobs.cloud.aws import reader
from slipway.jobs.platforms.mpi.members import find_members
from slipway.jobs.platforms.mpi.node.agreement import DeadHost, agree, refuse_dead
from slipway.jobs.platforms.mpi.node.code import ensure_code
from slipway.jobs.platforms.mpi.node.facts import find_program
from slipway.jobs.platforms.mpi.node.hosts import SSH_FAILED, ask_all
from slipway.jobs.platforms.mpi.node.instance import read_instance
from slipway.jobs.platforms.mpi.node.lock import CannotRun, lock_cluster
from slipway.jobs.platforms.mpi.node.mpirun import Ended, MpirunWork, StopRequested, run_everywhere
from slipway.jobs.platforms.mpi.node.protection import protect, release
from slipway.jobs.platforms.mpi.node.roster import write_roster
from slipway.jobs.platforms.mpi.node.setting import NodePaths, Setup
from slipway.jobs.platforms.mpi.node.users import become_cluster_user
from slipway.jobs.platforms.mpi.node.waiting import await_others
from slipway.jobs.platforms.rank_python import rank_python
from slipway.jobs.words.mpi import mpi_job
from slipway.jobs.words.mpi.mpi_job import REPLACED_SECONDS, MpiJob
from slipway.jobs.words.mpi.mpi_nodes import Member
from slipway.jobs.words.retries import RETRY_EXIT_CODE

_ENDING_SECONDS = 60.0  # in which the ranks of a cancelled job have saved
_LOOK_AGAIN_SECONDS = 10.0  # at nodes of which some are missing
_STOPPED_CODE = 143  # 128 + SIGTERM, as the launcher ends after it
_PREFIX = "[run] "  # beside "[3] " of rank 3 and "[node 3] " of its launcher


def run_job(where: NodePaths, setup: Setup, key: str) -> int:
    job = await_others(_read_request(setup, key), setup.region, say)
    # Only root may write down who is here, and ask who we are. Who is missing, the first attempt finds, too.
    with suppress(_Missing):
        _members_of(where, setup, job)
    become_cluster_user()
    signal.signal(signal.SIGTERM, _stop)
    try:
        with lock_cluster(where, job.name, _ENDING_SECONDS) as lock, _released(setup), scratch() as folder:
            return _attempts(where, setup, job, folder, lock)
    except StopRequested as stop:
        say(f"error: {job.name} ended before its ranks began: {stop}")
        return _STOPPED_CODE


def say(line: str) -> None:
    print(f"{_PREFIX}{line}", file=sys.stderr, flush=True)


@contextmanager
def _released(setup: Setup) -> Iterator[None]:
    """While we have the lock: the nodes of no other job are let go."""
    try:
        yield
    finally:
        release(setup, say)


@contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="slipway-run-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _attempts(where: NodePaths, setup: Setup, job: MpiJob, folder: Path, lock: int) -> int:
    for attempt in range(1, job.attempts + 1):
        ended = _attempt(where, setup, job, attempt, folder, lock)
        if ended.code != RETRY_EXIT_CODE or attempt == job.attempts:
            break
        say(f"{_which(job, attempt)} failed on its machines; the next resumes once all answer")
        try:
            await_members(where, setup, job)
        except (_Missing, DeadHost) as problem:
            minutes = REPLACED_SECONDS // 60
            say(f"error: {problem.message}; it was not replaced in {minutes} minutes; {problem.hint}")
            break
    _say_ending(job, ended, _which(job, attempt))
    return ended.code


def _attempt(where: NodePaths, setup: Setup, job: MpiJob, attempt: int, folder: Path, lock: int) -> Ended:
    """Run the ranks once. A machine that is lost before they start fails the attempt as one lost later."""
    try:
        members = _members_of(where, setup, job)
        protect(setup, members, say)
        work = _prepare(where, setup, job, members, attempt)
    except (_Missing, DeadHost) as problem:
        say(f"error: {_which(job, attempt)} did not start: {problem.message}; {problem.hint}")
        return Ended(code=RETRY_EXIT_CODE, dead=())
    return run_everywhere(where, work, folder, lock, say)


def await_members(where: NodePaths, setup: Setup, job: MpiJob) -> list[Member]:
    """Wait until enough nodes are there for another attempt: the group needs minutes to replace one."""
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


def _say_ending(job: MpiJob, ended: Ended, which: str) -> None:
    """Say last how the job ended; `slipway explain` reads the attempt from it."""
    lost = f", host {', '.join(ended.dead)} was lost" if ended.dead else ""
    say(f"{'error: ' if ended.code else ''}{job.name} ended with exit code {ended.code}, {which}{lost}")


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
    said = ask_all(where, [member.name for member in members], ["code", digest])
    failed = [each for each in said if each.error]
    refuse_dead({each.host: each.error for each in failed if each.code == SSH_FAILED})
    if failed:
        raise CannotRun(f"host {failed[0].host} could not fetch the job's code: {failed[0].error}")


def _read_request(setup: Setup, key: str) -> MpiJob:
    answer = reader("s3", setup.region).get_object(Bucket=setup.bucket, Key=key)
    job = mpi_job.decode(answer["Body"].read().decode(), where=f"s3://{setup.bucket}/{key}")
    if job.mpi != setup.mpi:
        raise CannotRun(
            f"job {job.name} is for {job.mpi}, and these nodes have {setup.mpi}",
            hint="deploy the cluster again: its target and its nodes are of two deployments",
        )
    return job


def _members_of(where: NodePaths, setup: Setup, job: MpiJob) -> list[Member]:
    """Choose as many nodes as the job asks for, this one, the main node, first."""
    own, members = read_instance(), find_members(setup.cluster, setup.region)
    if os.access(where.own, os.W_OK):
        write_roster(where, members)
    if len(members) < job.nodes:
        alive = ", ".join(member.name for member in members)
        raise _Missing(
            f"job {job.name} asks for {job.nodes} nodes and {len(members)} run: {alive}",
            hint=f"slipway status --on {setup.cluster} shows which are missing",
        )
    if members[0].instance_id != own.id:
        raise CannotRun(
            f"this is {own.id} ({own.address}), but the main node is {members[0].instance_id} "
            f"({members[0].name})",
            hint="submit the job again: the main node has changed meanwhile",
        )
    return members[: job.nodes]


class _Missing(CannotRun):
    exit_code = RETRY_EXIT_CODE


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise StopRequested(f"{signal.Signals(number).name} received")
