"""Finds and runs Slurm's own programs with a time limit, and reports what they refuse in one line."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from slipway.jobs.platforms.slurm.node.setting import node_paths, read_facts
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.slurm import program_folders

_ANSWER_SECONDS = 60.0
# Slurm's clients print these if the controller, or the accounting database, does not answer.
_NO_CONTROLLER = (
    "Unable to contact slurm controller",
    "Connection refused",
    "Socket timed out",
    "controller not responding",
    "Failed while looking for jobs",  # squeue --json, release 22.05
)
# They print this if it accepted a question and hung up, as with another key or time on the node.
_HUNG_UP = (
    "Zero Bytes were transmitted",
    "Protocol authentication error",
    "Invalid authentication credential",
)
# They print this before sackd or slurmd, started by PCS's agent, has fetched Slurm's configuration.
_NOT_SET_UP = "Could not establish a configuration source"
_SHOWN = 300


class NoSlurm(SlipwayError):
    """Slurm's programs are not on this machine."""


class SlurmRefused(SlipwayError):
    """Slurm did not do what it was asked."""


class DeadController(SlurmRefused):
    """Slurm's controller does not answer; its jobs continue without it."""


class HungUp(DeadController):
    """Slurm's controller answers others, but not this node."""


def find_program(name: str, slurm_version: str | None = None) -> str:
    """Return the path of one of Slurm's programs: on PATH, or where PCS, ParallelCluster or Debian put it."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *_folders(slurm_version)]
    found = shutil.which(name, path=os.pathsep.join(folder for folder in folders if folder))
    if found is None:
        raise NoSlurm(
            f"there is no {name} on this machine, so it is no node of a Slurm cluster",
            hint=f"looked in PATH and {', '.join(_folders(slurm_version))}",
        )
    return found


def ask(words: Sequence[str], *, slurm_version: str | None = None, seconds: float = _ANSWER_SECONDS) -> str:
    """Run one of Slurm's programs and return its output; raise what it refuses."""
    program = find_program(words[0], slurm_version)
    try:
        ran = subprocess.run(
            [program, *words[1:]],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise DeadController(
            f"{words[0]} has no answer after {seconds:.0f} s: Slurm's controller does not answer",
            hint=_LATER,
        ) from None
    if ran.returncode == 0:
        return ran.stdout
    raise refusal(words[0], ran.stderr.strip() or ran.stdout.strip() or f"exit code {ran.returncode}")


def refusal(program: str, said: str) -> SlurmRefused:
    """Return what one of Slurm's programs refused, as one line."""
    line = " ".join(said.split())[:_SHOWN]
    if _NOT_SET_UP in said:
        return DeadController(
            f"{program}: this node has no configuration of Slurm yet, as in its first minutes",
            hint="nothing was submitted; run the same command again in a minute",
        )
    if any(mark in line for mark in _HUNG_UP):
        node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
        return HungUp(
            f"{program}: Slurm's controller hangs up on node {node}: its key or its clock is not the "
            f"controller's, or that ended just now ({line})",
            hint="run it again; if it says the same, compare the node's clock, or end its instance: PCS "
            "gives a node its key at boot",
        )
    if any(mark in line for mark in _NO_CONTROLLER):
        return DeadController(f"{program}: Slurm's controller does not answer ({line})", hint=_LATER)
    return SlurmRefused(f"{program} says: {line}")


_LATER = "nothing was changed and running jobs go on; run the same command again in some minutes"


def _folders(slurm_version: str | None) -> tuple[str, ...]:
    """Return where the cluster's release of Slurm may be: AWS's AMI has others, also newer ones."""
    if release := slurm_version or read_facts(node_paths()).slurm_version:
        return program_folders(release)
    installed = sorted(map(str, Path("/opt/aws/pcs").glob("scheduler*/slurm-*/bin")), reverse=True)
    return (*installed, *program_folders("")[1:])  # the first is of a release


# Returns a job to the queue from its own batch script: Slurm's own requeue has no limit.
_PATIENCE_SECONDS = 600.0  # for a controller that is being replaced
_ASK_AGAIN_SECONDS = 10.0
_TAKEN_SECONDS = 120.0  # in which Slurm ends this script after it has taken the job back


def requeue(job: str, say: Callable[[str], None]) -> None:
    """Return the job to the queue and wait to be ended; return only if Slurm does not do that."""
    # Slurm ends the script by this signal; if ignored, it kills it after KillWait.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ends = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            ask(["scontrol", "requeue", job])
        except DeadController as error:
            if time.monotonic() > ends:
                raise
            say(f"[run] warning: {error.message}; the job's next attempt waits for it")
            time.sleep(_ASK_AGAIN_SECONDS)
        else:
            time.sleep(_TAKEN_SECONDS)
            return
