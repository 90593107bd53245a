"""Runs one mpirun over the hosts of a job: starts it, watches it, ends it everywhere if a host is lost."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slipway.containers.runtime.contract import variables
from slipway.jobs.platforms.mpi.node import hosts as nodes
from slipway.jobs.platforms.mpi.node.facts import NodeFacts
from slipway.jobs.platforms.mpi.node.setting import NodePaths
from slipway.jobs.platforms.on_nodes import read_exit_code
from slipway.jobs.words.mpi import (
    OPEN_MPI,
    Launch,
    Member,
    Topology,
    hostfile_text,
    mpirun_environment,
    mpirun_words,
    ranks_of,
)
from slipway.jobs.words.run import RETRY_EXIT_CODE

GRACE_SECONDS = 30.0  # from SIGTERM to SIGKILL, the same as Batch's
_PROBE_SECONDS = 2.0
_PROBES = 3  # after as many without an answer, a host is dead
# After a host is lost, launchers end by themselves when its heartbeats stop; mpirun may still wait. All of
# this together must stay below 30 s.
_FAREWELL_SECONDS = 8.0
_RENDEZVOUS_SECONDS = 120.0  # all hosts have answered a moment ago


@dataclass(frozen=True, slots=True, kw_only=True)
class MpirunWork:
    """Describes what to run, and on which hosts."""

    job: str
    members: Sequence[Member]  # the main node first
    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    processes_per_node: int | None
    mpi: str
    program: str
    facts: NodeFacts  # common to all hosts
    efa_interfaces: int
    code: Path | None  # None: the installed code
    python: str = sys.executable  # the ranks' Python


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    code: int
    dead: tuple[str, ...]  # hosts that were lost meanwhile


class StopRequested(Exception):
    """A signal asks this process to end."""


Say = Callable[[str], None]


def run_everywhere(where: NodePaths, work: MpirunWork, folder: Path, lock: int, say: Say) -> Ended:
    """Run the ranks to their end; mpirun inherits `lock`, so it stays held even if this process dies."""
    launch = build_launch(work, folder)
    (folder / "hostfile").write_text(hostfile_text(work.mpi, launch), encoding="ascii")
    code_file = folder / "exit-code"
    code_file.unlink(missing_ok=True)
    say(opening(launch))
    with subprocess.Popen(
        mpirun_words(work.mpi, launch),
        env={**_own_environment(where, work), **mpirun_environment(work.mpi, launch)},
        cwd=folder,
        stdin=subprocess.PIPE,  # open and silent: some MPIs read an end of file again and again
        start_new_session=True,
        pass_fds=(lock,),
    ) as process:
        code, lost = _until_end(where, work, process, say)
    lost = lost if code else ()
    return Ended(code=_true_code(code_file, code, lost), dead=lost)


def _until_end(
    where: NodePaths, work: MpirunWork, process: subprocess.Popen[bytes], say: Say
) -> tuple[int, tuple[str, ...]]:
    """Wait for the end; return mpirun's exit code and the hosts that were lost."""
    try:
        dead = _watch(where, work, process)
    except StopRequested as stop:
        say(f"{stop}: ranks have {GRACE_SECONDS:.0f} s to save and end")
        _end_everywhere(where, work, (), GRACE_SECONDS)
        dead = ()
    if dead:
        say_dead(dead, say)
    # End the job on every host that answers.
    with suppress(subprocess.TimeoutExpired):
        process.wait(_FAREWELL_SECONDS)
    silent = _end_everywhere(where, work, dead, 0.0)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    ended = process.wait()
    code = ended if ended >= 0 else 128 - ended
    if silent and code:  # mpirun or a launcher noticed the loss before us
        say_dead(silent, say)
    return code, (*dead, *silent)


def build_launch(work: MpirunWork, folder: Path) -> Launch:
    topology = Topology(domains=work.facts.numa_domains, cores=work.facts.cores)
    ranks = ranks_of(work.processes_per_node, topology)
    return Launch(
        program=work.program,
        hostfile=str(folder / "hostfile"),
        hosts=[member.name for member in work.members],
        ranks_per_host=ranks,
        topology=topology,
        environment={**_variables(work, ranks), variables.EXIT_FILE: str(folder / "exit-code")},
        command=[
            work.python,
            "-m",
            "slipway.containers.runtime.launch",
            "--module",
            work.module,
            "--",
            *work.arguments,
        ],
        efa_interfaces=work.efa_interfaces,
        has_ccl=work.facts.ccl,
    )


def opening(launch: Launch) -> str:
    """Describe the launch in one line; `slipway logs` reads the ranks per host from it."""
    count, ranks = len(launch.hosts), launch.ranks_per_host
    return f"{count} hosts, {ranks} ranks each: {', '.join(launch.hosts)}"


def _variables(work: MpirunWork, ranks: int) -> dict[str, str]:
    """Return the dynamic half of the launch contract, without the variables that mpirun sets."""
    passed = {name: os.environ[name] for name in nodes.PASSED_ON if name in os.environ}
    return {
        **passed,
        "MASTER_ADDR": work.members[0].address,
        "PYTHONPATH": str(work.code) if work.code else "",
        variables.RENDEZVOUS_SECONDS: str(_RENDEZVOUS_SECONDS),
        **work.environment,
        variables.RUN: f"{work.job}.{secrets.token_hex(4)}",
        variables.LAUNCH_SECRET: secrets.token_hex(16),
        variables.PROCESSES_PER_NODE: str(ranks),
    }


def _own_environment(where: NodePaths, work: MpirunWork) -> dict[str, str]:
    ssh = str(where.ssh_program)
    base = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    if work.mpi == OPEN_MPI:
        # Without another user, as in a user namespace of the yard, mpirun would refuse root.
        allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return {**base, **allowed, "OMPI_MCA_plm_rsh_agent": ssh, "PRTE_MCA_plm_ssh_agent": ssh}
    return {**base, "HYDRA_LAUNCHER_EXEC": ssh, "I_MPI_HYDRA_BOOTSTRAP_EXEC": ssh}


def _watch(where: NodePaths, work: MpirunWork, process: subprocess.Popen[bytes]) -> tuple[str, ...]:
    """Wait until mpirun ends, or hosts have missed several probes in a row; return those hosts."""
    names = [member.name for member in work.members]
    addresses = [member.address for member in work.members]
    missed = dict.fromkeys(names, 0)
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PROBE_SECONDS)
            return ()
        silent = nodes.unreachable(where, names, addresses)
        missed = {host: count + 1 if host in silent else 0 for host, count in missed.items()}
        if dead := tuple(host for host, count in missed.items() if count >= _PROBES):
            return dead


def say_dead(dead: Sequence[str], say: Say) -> None:
    say(f"error: host {', '.join(dead)} no longer answers; the job ends on all others")


def _end_everywhere(
    where: NodePaths, work: MpirunWork, dead: Sequence[str], grace_seconds: float
) -> tuple[str, ...]:
    """Ask every live host to end the job; return the hosts that could not be reached."""
    alive = [member.name for member in work.members if member.name not in dead]
    words = ["stop", work.job, "--grace", str(grace_seconds)]
    said = nodes.ask_all(where, alive, words, grace_seconds + nodes.ANSWER_SECONDS)
    return tuple(each.host for each in said if each.code == nodes.SSH_FAILED)


def _true_code(path: Path, code: int, dead: Sequence[str]) -> int:
    if dead:
        return RETRY_EXIT_CODE
    written = read_exit_code(path)
    return code if written is None else written
