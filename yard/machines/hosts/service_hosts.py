"""Hosts that are not the account's instances: an AWS service runs them for itself in the account's VPC.

EC2 shows only such a host's network interface, whose id names the host here. It does not boot an AMI; it runs
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
    units: Sequence[Mapping[str, Any]]  # name and argv; a unit that ends is restarted
    written: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # path -> text and mode
    mounts: Sequence[tuple[str, str]] = ()  # (folder of this machine, path in the host)


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
