"""Can this machine make namespaces? `python -m … TIER` ends with 0 when it can."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from jobs.yard.batch.isolation import kernel
from jobs.yard.batch.isolation.cluster import OF_A_NODE


def main(tier: str) -> NoReturn:
    if tier == "user":
        kernel.become_root_of_own_users()
    kernel.unshare(OF_A_NODE)
    child = os.fork()
    if child == 0:
        _try_out()
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _try_out() -> NoReturn:
    try:
        kernel.mount("none", Path("/"), flags=kernel.PRIVATE | kernel.RECURSIVE)
        kernel.mount("proc", Path("/proc"), "proc")
        kernel.set_hostname("trial")
        lines = "link set lo up\nlink add br0 type bridge\nlink add v0 type veth peer name p0\n"
        subprocess.run(["ip", "-batch", "-"], input=lines, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
