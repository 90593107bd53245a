"""Enters a host through its namespaces, as Session Manager does, not by ssh.

The server says how the host is isolated. A command either runs inside the host or not at all: nothing meant
for a host may run outside it. To support another kind of isolation, add a line to _WAYS.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.jobs.words.errors import SlipwayError
from slipway.yard.machines.hosts import host_store

# The namespaces of a host, as files below /proc/<pid>/ns. One that boots for real has a time namespace, too.
_NAMESPACES = ("mnt", "uts", "ipc", "net", "pid")
_WORDS = {"mnt": "mount"}
_IN_SHELL = ("sh", "-c", 'cd && exec "$@"', "sh")
LOGIN = ("bash", "-l")


class CannotEnter(SlipwayError):
    """Raised if a host cannot be entered; no command was run."""


def target(host: host_store.Host) -> dict[str, Any]:
    """Return what the command line needs to enter the host with the caller's own rights."""
    if not host.process or host.ended.is_set():
        raise ValueError(f"host {host.instance.name} is {host.state} and cannot be entered")
    return {
        "name": host.instance.name,
        "tier": host.tier,
        "process": host.process,
        "namespaces": dict(host.namespaces),
        "environment": dict(host.environment),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterCommand:
    """Describes a command that runs in a host, and the descriptors that it needs open."""

    argv: list[str]
    descriptors: tuple[int, ...] = ()


def enter_command(target: Mapping[str, Any], words: Sequence[str]) -> EnterCommand:
    """Build the command that runs `words` in the host, without a shell."""
    into = _WAYS[_tier(target)](target)
    return EnterCommand(argv=[*into.argv, *_IN_SHELL, *(words or LOGIN)], descriptors=into.descriptors)


def network_command(target: Mapping[str, Any], words: Sequence[str]) -> EnterCommand:
    """Build the command that runs a program of this machine, as its user, but in the host's network."""
    spaces = _NETWORKS[_tier(target)]
    if not spaces:
        raise CannotEnter(
            f"host {target.get('name')} has no network of its own: it consists of processes of this machine",
            hint="its ports are this machine's: use 127.0.0.1",
        )
    into = _through(target, spaces)
    return EnterCommand(argv=[*into.argv, *words], descriptors=into.descriptors)


def _tier(target: Mapping[str, Any]) -> str:
    tier = str(target.get("tier"))
    if tier not in _WAYS:
        raise CannotEnter(
            f"the yard does not say how host {target.get('name')} is isolated, so nothing was run",
            hint="the yard has another version; restart it: slipway yard down; slipway yard up",
        )
    return tier


def environment(of_host: Mapping[str, str], terminal: Mapping[str, str]) -> dict[str, str]:
    """Return the host's environment with this terminal's type added."""
    return {**of_host, **{name: terminal[name] for name in ("TERM", "COLORTERM") if name in terminal}}


def _by_namespaces(target: Mapping[str, Any], *more: str) -> EnterCommand:
    own_clock = str(Path("/proc/self/ns/time").readlink()) if "time" in target["namespaces"] else ""
    clock = ("time",) if target["namespaces"].get("time", "") != own_clock else ()
    return _through(target, (*_NAMESPACES, *clock, *more))


def _through(target: Mapping[str, Any], spaces: Sequence[str]) -> EnterCommand:
    opened = {name: _opened(target, name) for name in spaces}
    options = [f"--{_WORDS.get(name, name)}=/proc/self/fd/{each}" for name, each in opened.items()]
    credentials = ["--preserve-credentials"] if "user" in spaces else []
    return EnterCommand(argv=["nsenter", *options, *credentials], descriptors=tuple(opened.values()))


_WAYS: Mapping[str, Callable[[Mapping[str, Any]], EnterCommand]] = {
    "root": _by_namespaces,
    # An ordinary user started it, so it has a user namespace, too.
    "user": lambda target: _by_namespaces(target, "user"),
    "plain": lambda _door: EnterCommand(argv=[]),
}
_NETWORKS: Mapping[str, Sequence[str]] = {"root": ("net",), "user": ("user", "net"), "plain": ()}


def _opened(target: Mapping[str, Any], name: str) -> int:
    """Open the namespace that the host reported, and refuse any other.

    The host's process may have ended and its pid belong to a process outside any host. So the namespace is
    opened first, then compared, then passed on open.
    """
    path = f"/proc/{target['process']}/ns/{name}"
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise _cannot(target, f"{path}: {error.strerror}") from error
    os.set_inheritable(descriptor, True)
    if str(Path(f"/proc/self/fd/{descriptor}").readlink()) != target["namespaces"].get(name):
        raise _cannot(target, f"process {target['process']} does not belong to this host")
    return descriptor


def _cannot(target: Mapping[str, Any], why: str) -> CannotEnter:
    return CannotEnter(
        f"host {target['name']} cannot be entered, and nothing was run: {why}",
        hint="list the hosts: slipway yard hosts; only the user who started the yard can enter them",
    )
