"""Can this machine make namespaces? `python -m … TIER` ends with 0 when it can."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from jobs.yard.isolation import kernel, namespaces


def main(tier: str) -> NoReturn:
    if tier == "user":
        kernel.become_root_of_own_users()
    kernel.unshare(namespaces.OF_A_MACHINE)
    child = os.fork()
    if child == 0:
        _try_out()
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _try_out() -> NoReturn:
    try:
        kernel.mount("none", Path("/"), flags=kernel.PRIVATE | kernel.RECURSIVE)
        kernel.mount("proc", Path("/proc"), "proc")
        kernel.set_hostname("trial")
        namespaces.ip("link set lo up", "link add br0 type bridge", "link add v0 type veth peer name p0")
    except (OSError, subprocess.CalledProcessError):
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
