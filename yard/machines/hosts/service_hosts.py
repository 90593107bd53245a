"""Hosts that are no instances of the account: what a service of AWS runs for itself in the account's VPC.

EC2 shows such a host's network interface alone, whose id names it here. It boots nothing of an image; it runs
the service's programs, with this machine's files. A service adds a host and removes it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.machines.hosts.host_store import HostInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceHost:
    instance: HostInstance
    steps: Sequence[Sequence[str]]  # commands, before the programs start
    units: Sequence[Mapping[str, Any]]  # a name and an argv; each starts again when it ends
    written: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # path -> text and mode
    mounts: Sequence[tuple[str, str]] = ()  # folder of this machine, path there


_kept: dict[str, ServiceHost] = {}
_lock = threading.Lock()


def add(host: ServiceHost) -> None:
    with _lock:
        _kept[host.instance.id] = host


def remove(identifier: str) -> None:
    with _lock:
        _kept.pop(identifier, None)


def find(identifier: str) -> ServiceHost:
    return _kept[identifier]


def wanted() -> list[HostInstance]:
    with _lock:
        return [host.instance for host in _kept.values()]


def reset() -> None:
    with _lock:
        _kept.clear()
