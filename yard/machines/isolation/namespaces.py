"""Makes a private network with a bridge, held by a process tree that ends as a whole. Linux only.

This runs in the processes that hold nodes and hosts, so it may import only the standard library.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from slipway.yard.machines.isolation import kernel

# The namespaces of one machine in such a network.
OF_A_MACHINE = kernel.NEW_NETWORK | kernel.NEW_HOSTNAME | kernel.NEW_MOUNTS | kernel.NEW_IPC | kernel.NEW_PIDS
BRIDGE = "br0"


def enter_network(tier: str, control: socket.socket) -> None:
    """Continue as the first process of a new network; the calling process waits for it and exits."""
    if tier == "user":
        kernel.become_root_of_own_users()
    kernel.unshare(kernel.NEW_NETWORK | kernel.NEW_MOUNTS | kernel.NEW_PIDS)
    child = os.fork()
    if child:
        control.close()
        os.waitpid(child, 0)
        os._exit(0)
    kernel.die_with_parent()
    kernel.mount("none", Path("/"), flags=kernel.PRIVATE | kernel.RECURSIVE)
    kernel.mount("proc", Path("/proc"), "proc")  # `ip` looks up processes by their pids in this namespace
    ip("link set lo up", f"link add {BRIDGE} type bridge", f"link set {BRIDGE} up")


def ip(*lines: str, before: Callable[[], None] | None = None) -> None:
    """Run commands of `ip`; `before` runs in its process and may join another network."""
    text = "\n".join(lines) + "\n"
    subprocess.run(["ip", "-batch", "-"], input=text, text=True, check=True, preexec_fn=before)


def cable(number: int, holder: int) -> tuple[str, ...]:
    """Return the commands that connect the bridge to the network of the process `holder`."""
    return (
        f"link add v{number} type veth peer name p{number}",
        f"link set v{number} master {BRIDGE} up",
        f"link set p{number} netns {holder} name eth0",
    )


def own() -> dict[str, str]:
    """Return this process's namespaces as /proc names them; a name is unique while the namespace exists."""
    return {file.name: str(file.readlink()) for file in Path("/proc/self/ns").iterdir()}


def wake_on_children() -> int:
    """Return a descriptor that becomes readable when a child ends."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def sleep_through_children() -> None:
    """Undo wake_on_children in a forked process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
