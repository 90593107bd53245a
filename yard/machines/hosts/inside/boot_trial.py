"""Tries if systemd-nspawn can start on this machine: `python -m …`. Standard library only.

It exits with nspawn's exit code; nspawn prints what is wrong.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from slipway.yard.machines.hosts.inside import cgroups, nspawn
from slipway.yard.machines.isolation import kernel, namespaces


def main() -> int:
    group = cgroups.name(os.getppid(), "trial")
    cgroups.enter(group)
    kernel.unshare(namespaces.OF_A_MACHINE)
    child = os.fork()
    if child == 0:
        # Make a host's tree in memory that is freed with this process, and start a shell in it.
        kernel.die_with_parent()
        kernel.unshare(kernel.NEW_MOUNTS)  # the parent still needs its own /proc
        kernel.mount("none", Path("/"), flags=kernel.PRIVATE | kernel.RECURSIVE)
        kernel.mount("proc", Path("/proc"), "proc")
        kernel.mount("run", Path("/run"), "tmpfs")
        upper, work, root = (Path("/run/trial", name) for name in ("upper", "work", "root"))
        for each in (upper, work, root):
            each.mkdir(parents=True)
        kernel.mount("trial", root, "overlay", options=f"lowerdir=/,upperdir={upper},workdir={work}")
        os._exit(subprocess.run(nspawn.trial(root), check=False, stdin=subprocess.DEVNULL).returncode)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    cgroups.leave(group)
    return code


if __name__ == "__main__":
    sys.exit(main())
