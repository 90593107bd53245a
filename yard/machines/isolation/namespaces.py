"""A network of its own with a bridge in it, as one process tree that ends as a whole. Linux only.

Runs in the processes that hold nodes and hosts, so it may import the standard library only.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from slipway.yard.machines.isolation import kernel

# What one machine of such a network has for itself.
OF_A_MACHINE = kernel.NEW_NETWORK | kernel.NEW_HOSTNAME | kernel.NEW_MOUNTS | kernel.NEW_IPC | kernel.NEW_PIDS
BRIDGE = "br0"


def enter_network(tier: str, control: socket.socket) -> None:
    """The caller becomes the first process of a network of its own; the process it was waits for that one."""
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
    kernel.mount("proc", Path("/proc"), "proc")  # `ip` looks up processes by the numbers they have here
    ip("link set lo up", f"link add {BRIDGE} type bridge", f"link set {BRIDGE} up")


def ip(*lines: str, before: Callable[[], None] | None = None) -> None:
    """`before` runs in the new process: it may join another network."""
    text = "\n".join(lines) + "\n"
    subprocess.run(["ip", "-batch", "-"], input=text, text=True, check=True, preexec_fn=before)


def cable(number: int, holder: int) -> tuple[str, ...]:
    """Connect the bridge to the network of the process `holder`."""
    return (
        f"link add v{number} type veth peer name p{number}",
        f"link set v{number} master {BRIDGE} up",
        f"link set p{number} netns {holder} name eth0",
    )


def own() -> dict[str, str]:
    """This process's namespaces, as /proc names them: nobody else's have these names while they last."""
    return {each.name: str(each.readlink()) for each in Path("/proc/self/ns").iterdir()}


def wake_on_children() -> int:
    """A descriptor that becomes readable when a child ends."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def sleep_through_children() -> None:
    """Stop waking on children, in the fork of a process that wakes on them."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
