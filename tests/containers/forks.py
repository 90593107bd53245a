"""Runs ranks as forks of one process, which runs a module and imports torch once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_SECONDS = 600


def run_module(module: str, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a module of the tests to its end, whatever it is, one thread in each process."""
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def fork_each(world: int, body: Callable[[int], int | None]) -> list[int]:
    """Run `body` as each rank; return the exit codes, which are what it returns, and 1 where it raises.

    This process must compute nothing itself: threads do not survive a fork.
    """
    children = []
    for rank in range(world):
        if (child := os.fork()) == 0:
            code = 1
            try:
                code = body(rank) or 0
            except BaseException:  # noqa: BLE001 - a fork must end here after any exception
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                sys.stdout.flush()
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
