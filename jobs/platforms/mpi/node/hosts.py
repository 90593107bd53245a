"""Asks every host of a job at once over ssh, and names the ones that do not answer."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from slipway.containers.runtime.contract import variables
from slipway.jobs.platforms.mpi.node.job_credentials import TOKEN_VARIABLE, URI_VARIABLE
from slipway.jobs.platforms.mpi.node.setting import PORT_VARIABLE, ROOT_VARIABLE, NodePaths

# Variables of ours that programs on other nodes need: where AWS, its credentials and this node are, and
# whether it is a yard's.
PASSED_ON = (
    "AWS_ENDPOINT_URL",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    URI_VARIABLE,
    TOKEN_VARIABLE,
    ROOT_VARIABLE,
    PORT_VARIABLE,
    variables.STAND_IN,
)
ANSWER_SECONDS = 20.0  # ssh itself gives up a dead host after five
_REACH_SECONDS = 2.0
_MOST_AT_ONCE = 64
SSH_FAILED = 255  # ssh's own exit code; any other is the command's
_SAID = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    host: str
    code: int
    output: str
    error: str  # why it did not answer, in one line; empty if it did

    @property
    def answered(self) -> bool:
        return not self.error


def ask_all(
    where: NodePaths, hosts: Sequence[str], words: Sequence[str], seconds: float = ANSWER_SECONDS
) -> list[Said]:
    """Run `slipway-node WORD…` on every host with this same Python, and return what each printed."""
    passed = [f"{name}={os.environ[name]}" for name in PASSED_ON if name in os.environ]
    command = shlex.join(
        ["env", *passed, sys.executable, "-m", "slipway.jobs.platforms.mpi.node.main", *words]
    )
    with ThreadPoolExecutor(max_workers=_MOST_AT_ONCE) as pool:
        return list(pool.map(lambda host: _ask(where, host, command, seconds), hosts))


def closed_to_jobs(where: NodePaths, hosts: Sequence[str]) -> list[Said]:
    """Log in to every host as this process's user, and return the answers of those that refuse."""
    with ThreadPoolExecutor(max_workers=_MOST_AT_ONCE) as pool:
        said = pool.map(lambda host: _ask(where, host, "true", ANSWER_SECONDS), hosts)
        return [each for each in said if each.error]


def unreachable(where: NodePaths, hosts: Sequence[str], addresses: Sequence[str]) -> list[str]:
    """Return the hosts on which nothing listens for ssh; cheap enough to repeat while a job runs."""
    with ThreadPoolExecutor(max_workers=_MOST_AT_ONCE) as pool:
        listens = pool.map(lambda address: _listens(address, where.ssh_port), addresses)
        return [host for host, is_up in zip(hosts, listens, strict=True) if not is_up]


def _ask(where: NodePaths, host: str, command: str, seconds: float) -> Said:
    try:
        ran = subprocess.run(
            [where.ssh_program, "-T", host, command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Said(host=host, code=SSH_FAILED, output="", error=f"no answer within {seconds:.0f} s")
    lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
    last = lines[-1][:_SAID] if lines else f"exit code {ran.returncode}"
    error = last if ran.returncode else ""
    return Said(host=host, code=ran.returncode, output=ran.stdout, error=error)


def _listens(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=_REACH_SECONDS):
            return True
    except OSError:
        return False
