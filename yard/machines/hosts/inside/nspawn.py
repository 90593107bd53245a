"""One boot of a host: systemd-nspawn starts systemd in the host's tree, and reports its progress.

Standard library only. Options for every boot are lines of _ALWAYS; options for one host come from its plan.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway.yard.machines.isolation import kernel, namespaces

PROGRAM = "systemd-nspawn"
REBOOTS = 133  # nspawn's exit code if the host reboots and nspawn is not to restart it itself
NOTIFY = "/run/slipway-notify"
POWER_OFF = signal.SIGRTMIN + 4  # systemd(1), "Signals"
REBOOT = signal.SIGRTMIN + 5
_ALWAYS = (
    "--quiet",
    "--boot",
    "--register=no",  # do not ask this machine's systemd, if it has one
    "--keep-unit",
    "--notify-ready=yes",
    "--console=read-only",
    "--link-journal=no",
    "--resolv-conf=off",
    "--timezone=off",
    "--suppress-sync=yes",  # a host's files are deleted with it anyway
    "--drop-capability=CAP_MKNOD,CAP_SYS_TTY_CONFIG",
    f"--kill-signal={int(POWER_OFF)}",
)
# The namespaces that nspawn makes for the host; it keeps this process's network.
_NAMESPACES = (
    kernel.NEW_MOUNTS
    | kernel.NEW_HOSTNAME
    | kernel.NEW_IPC
    | kernel.NEW_NETWORK
    | kernel.NEW_PIDS
    | kernel.NEW_CGROUP
)
_LAST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")


def command(plan: Mapping[str, Any], root: Path) -> list[str]:
    """Build nspawn's command line for the host of the plan."""
    return [
        PROGRAM,
        *_ALWAYS,
        f"--directory={root}",
        f"--machine={plan['name']}",
        f"--hostname={plan['name']}",
        f"--uuid={plan['uuid']}",
        *(f"--bind={source}:{target}" for source, target in plan["mounts"]),
        *(f"--bind-ro={source}:{target}" for source, target in plan["read_only"]),
        *(f"--tmpfs={path}:mode=755,ro" for path in plan["emptied"]),
    ]


def trial(root: Path) -> list[str]:
    """Build the command line that starts only a shell."""
    return [PROGRAM, "--quiet", "--register=no", "--keep-unit", f"--directory={root}", "/bin/sh", "-c", ":"]


@dataclass(slots=True)
class Boot:
    """A run of nspawn, and the systemd in it, once that is known."""

    process: int
    notices: socket.socket
    systemd: int = -1  # a pidfd
    namespaces: Mapping[str, str] = field(default_factory=dict)

    def read_notice(self) -> Mapping[str, str]:
        """Return the values of the next notice, which has the form of sd_notify(3)."""
        lines = self.notices.recv(4096).decode(errors="replace").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def take_leader(self, process: int) -> bool:
        """Note this process as the host's first one; return False unless that is certain."""
        descriptor = os.pidfd_open(process)
        found = {file.name: str(file.readlink()) for file in Path(f"/proc/{process}/ns").iterdir()}
        is_first = _status(process, "NSpid").split()[-1] == "1"
        is_inside = found["pid"] != namespaces.own()["pid"] and found["mnt"] != namespaces.own()["mnt"]
        if is_first and is_inside and int(_status(process, "PPid")) == self.process:
            self.systemd, self.namespaces = descriptor, found
            return True
        os.close(descriptor)
        return False

    def signal(self, number: int) -> None:
        """Signal the host's systemd; before it has started, end nspawn."""
        if self.systemd >= 0:
            signal.pidfd_send_signal(self.systemd, number)
        else:
            os.kill(self.process, signal.SIGKILL)

    def close(self) -> None:
        self.notices.close()
        if self.systemd >= 0:
            os.close(self.systemd)


def start(plan: Mapping[str, Any], root: Path, console: int) -> Boot:
    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    Path(NOTIFY).unlink(missing_ok=True)
    notices.bind(NOTIFY)
    argv = command(plan, root)
    with contextlib.suppress(OSError):  # an old kernel: the host shows this machine's uptime
        kernel.restart_clocks()
    process = os.fork()
    if process == 0:
        try:
            namespaces.sleep_through_children()
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDONLY)
            for end, target in ((nothing, 0), (console, 1), (console, 2)):
                os.dup2(end, target)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            os.execvpe(argv[0], argv, {"PATH": plan["path"], "NOTIFY_SOCKET": NOTIFY})  # noqa: S606 - no shell
        finally:
            os._exit(127)
    return Boot(process=process, notices=notices)


def go_inside(boot: Boot) -> None:
    """Make this process's next child a process of the host, with no more rights than the host's systemd.

    If an error is raised, nothing may be run: this process is only partly inside.
    """
    text = Path(f"/proc/self/fdinfo/{boot.systemd}").read_text(encoding="ascii")
    leader = int(next(line.split()[1] for line in text.splitlines() if line.startswith("Pid:")))
    bound = int(_status(leader, "CapBnd"), 16)
    last = int(_LAST_CAPABILITY.read_text(encoding="ascii"))
    kernel.join_all(boot.systemd, _NAMESPACES)
    kernel.give_up([number for number in range(last + 1) if not bound >> number & 1])


def _status(process: int, field_name: str) -> str:
    text = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace")
    return next(line.partition(":")[2].strip() for line in text.splitlines() if line.startswith(field_name))
