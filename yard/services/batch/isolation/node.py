"""A node's first process: makes its file tree, starts the container's command, passes signals on and reaps.

It runs in a fork of cluster.py, so it may import only the standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from slipway.yard.machines.isolation import home, kernel, links, namespaces, processes

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def run(plan: Mapping[str, Any], node: Mapping[str, Any], control: socket.socket, log: int) -> NoReturn:
    """Run the command and exit with its code."""
    descriptors = []
    if plan["isolated"]:
        enter(node, plan["keep"], plan["home"])
        kernel.set_hostname(node["hostname"])
        namespaces.ip("link set lo up", f"addr add {node['address']} dev eth0", "link set eth0 up")
        descriptors = [_listener(plan["port"])]
        if node["link"] and (problem := links.set_up(node["link"])):
            os.write(
                log, f"the yard cannot apply the network faults to this node's link: {problem}\n".encode()
            )
    time.sleep(node["launch_seconds"])
    ready = json.dumps({"event": "ready", "node": node["index"]}).encode()
    socket.send_fds(control, [ready], [descriptor.fileno() for descriptor in descriptors])
    for each in (control, *descriptors):
        each.close()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)
    if plan["isolated"] and not node["init"]:
        _execute(node)
    code = _supervise(node)
    if not plan["isolated"]:
        processes.kill_all(processes.descendants(os.getpid()))
    os._exit(code)


def _listener(port: int) -> socket.socket:
    """Listen at the yard's own address, in this node's network; the yard serves the connections."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    return listener


def _supervise(node: Mapping[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        os.setsid()
        _execute(node)

    def pass_on(number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for each in FORWARDED:
        signal.signal(each, pass_on)
    while True:
        ended, status = os.wait()  # orphans end here, too
        if ended == child:
            return processes.shell_code(os.waitstatus_to_exitcode(status))


def _execute(node: Mapping[str, Any]) -> NoReturn:
    for number in (*FORWARDED, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    argv: list[str] = node["argv"]
    try:
        os.chdir(node["cwd"])
        os.execvpe(argv[0], argv, node["environment"])  # noqa: S606 - no shell reads it
    except OSError as error:
        sys.stderr.write(f"exec: {argv[0]!r}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(processes.code_of(error, argv[0], node["environment"].get("PATH", os.defpath)))


# A node's file tree is this machine's, except for homes, /tmp, /dev/shm, /proc, /etc/hosts and the job's
# mounts. Nothing is created in this machine's folders: a folder in which a mount point is needed is mirrored.
_OWN = ("/tmp", "/proc", "/var/tmp")  # noqa: S108 - the node's, not ours


def enter(node: Mapping[str, Any], keep: Sequence[str], homes: home.Plan) -> None:
    """Make the node's tree the root of this process, which must have its own mount namespace."""
    folder = Path(node["folder"])
    root = folder / "root"
    root.mkdir()
    kernel.mount("none", Path("/"), flags=kernel.PRIVATE | kernel.RECURSIVE)
    kernel.mount("node", root, "tmpfs", options="mode=755")
    mounts = {target: source for source, target in node["mounts"]}
    _mirror(Path("/"), root, frozenset(Path(path) for path in (*_OWN, *mounts)))
    home.hide(root, homes, read_only=True)
    kernel.mount("proc", home.folder_in(root, "/proc"), "proc")
    kernel.mount("shm", root / "dev/shm", "tmpfs", options=f"mode=1777,size={node['shared_memory_mib']}m")
    private = str(folder / "tmp")
    for target, source in {"/tmp": private, "/var/tmp": private, **mounts}.items():  # noqa: S108
        kernel.bind(source, home.folder_in(root, target))
    kernel.bind(str(folder / "hosts"), root / "etc/hosts")
    for path in keep:  # read-only, what the node's own /tmp would hide, such as the checkout
        if any(Path(own) in Path(path).parents for own in _OWN):
            target = home.folder_in(root, path)
            kernel.bind(path, target)
            home.make_read_only(target)
    kernel.pivot_root(root)


def _mirror(real: Path, copy: Path, hidden: frozenset[Path]) -> None:
    """Bind each entry of a folder, except for those that are hidden or hold something hidden."""
    for entry in os.scandir(real):
        path, target = Path(entry.path), copy / entry.name
        if entry.is_symlink():
            target.symlink_to(path.readlink())
        elif path in hidden:
            target.mkdir()
        elif any(path in other.parents for other in hidden):
            target.mkdir()
            _mirror(path, target, hidden)
        elif entry.is_dir():
            target.mkdir()
            kernel.bind(str(path), target)
        elif entry.is_file():
            target.touch()
            kernel.bind(str(path), target)
