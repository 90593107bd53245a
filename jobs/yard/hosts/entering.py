"""The way into a host from this machine: by its namespaces, as Session Manager lets one in, not by ssh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.yard.hosts import book
from jobs.yard.isolation.tiers import best_tier

# What of a host's processes is its own; its users as well where no root of this machine made it.
_NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")
_AS_USER = ("--user", "--preserve-credentials")
_IN_SHELL = ("sh", "-c", 'cd && exec "$@"', "sh")
LOGIN = ("bash", "-l")


def door(host: book.Host) -> dict[str, Any]:
    """What the command line needs; it runs with the rights of whoever calls it."""
    if not host.process or host.ended.is_set():
        raise ValueError(f"host {host.machine.name} is {host.state}, and nobody can enter it")
    return {"name": host.machine.name, "process": host.process, "environment": dict(host.environment)}


def command(process: int, words: Sequence[str]) -> list[str]:
    """The words run as they are; no shell reads them."""
    if not best_tier().isolated:
        return [*_IN_SHELL, *(words or LOGIN)]
    own = _AS_USER if best_tier().name == "user" else ()
    return ["nsenter", f"--target={process}", *_NAMESPACES, *own, *_IN_SHELL, *(words or LOGIN)]


def environment(of_host: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The host's, and what the terminal is."""
    return {**of_host, **{name: own[name] for name in ("TERM", "COLORTERM") if name in own}}
