"""The way into a host from this machine: by its namespaces, as Session Manager lets one in, not by ssh.

The server says how the host was made, and it is entered so or not at all: nothing that is meant for a host
may run outside it. A further way is a line of _WAYS.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipway.jobs.core.errors import SlipwayError
from slipway.yard.machines.hosts import host_store

# What of a host's processes is its own, as files below /proc/<pid>/ns; nsenter's word where it is another.
_NAMESPACES = ("mnt", "uts", "ipc", "net", "pid")
_WORDS = {"mnt": "mount"}
_IN_SHELL = ("sh", "-c", 'cd && exec "$@"', "sh")
LOGIN = ("bash", "-l")


class CannotEnter(SlipwayError):
    """Nothing was run."""


def door(host: host_store.Host) -> dict[str, Any]:
    """What the command line needs; it runs with the rights of whoever calls it."""
    if not host.process or host.ended.is_set():
        raise ValueError(f"host {host.instance.name} is {host.state}, and nobody can enter it")
    return {
        "name": host.instance.name,
        "tier": host.tier,
        "process": host.process,
        "namespaces": dict(host.namespaces),
        "environment": dict(host.environment),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterCommand:
    """A command that runs in a host, and the descriptors that it needs open."""

    argv: list[str]
    descriptors: tuple[int, ...] = ()


def entry(door: Mapping[str, Any], words: Sequence[str]) -> EnterCommand:
    """The words run as they are; no shell reads them."""
    way = _WAYS.get(str(door.get("tier")))
    if way is None:
        raise CannotEnter(
            f"the yard does not say how host {door.get('name')} is kept apart, so nothing was run",
            hint="the yard is of another Slipway: slipway yard down; slipway yard up",
        )
    into = way(door)
    return EnterCommand(argv=[*into.argv, *_IN_SHELL, *(words or LOGIN)], descriptors=into.descriptors)


def environment(of_host: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The host's, and what the terminal is."""
    return {**of_host, **{name: own[name] for name in ("TERM", "COLORTERM") if name in own}}


def _by_namespaces(door: Mapping[str, Any], *more: str) -> EnterCommand:
    opened = {name: _opened(door, name) for name in (*_NAMESPACES, *more)}
    options = (f"--{_WORDS.get(name, name)}=/proc/self/fd/{each}" for name, each in opened.items())
    return EnterCommand(argv=["nsenter", *options], descriptors=tuple(opened.values()))


def _by_own_users(door: Mapping[str, Any]) -> EnterCommand:
    """No root of this machine made the host: its users are its own, too."""
    found = _by_namespaces(door, "user")
    return replace(found, argv=[*found.argv, "--preserve-credentials"])


def _plainly(_door: Mapping[str, Any]) -> EnterCommand:
    return EnterCommand(argv=[])


_WAYS: Mapping[str, Callable[[Mapping[str, Any]], EnterCommand]] = {
    "root": _by_namespaces,
    "user": _by_own_users,
    "plain": _plainly,
}


def _opened(door: Mapping[str, Any], name: str) -> int:
    """The very namespace that the host told of.

    Its process may have ended, and its number be another's, outside of any host; so the namespace is opened
    first, looked at, and handed over open.
    """
    path = f"/proc/{door['process']}/ns/{name}"
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise _cannot(door, f"{path}: {error.strerror}") from error
    os.set_inheritable(descriptor, True)
    if str(Path(f"/proc/self/fd/{descriptor}").readlink()) != door["namespaces"].get(name):
        raise _cannot(door, f"process {door['process']} is not of this host")
    return descriptor


def _cannot(door: Mapping[str, Any], why: str) -> CannotEnter:
    return CannotEnter(
        f"host {door['name']} cannot be entered, and nothing was run: {why}",
        hint="slipway yard hosts shows which run; enter on the yard's machine, as the user who started it",
    )
