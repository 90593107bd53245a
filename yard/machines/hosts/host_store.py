"""All hosts of this yard, and their one lock; every change notifies those who wait on it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from slipway.yard.machines.hosts import boot_ways
from slipway.yard.machines.hosts.console import Console

# A host in one of these is not on its way to another.
SETTLED = ("running", "dead", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCommand:
    """Describe a command that a host runs besides its units."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


class FirstProcess(Protocol):
    """Send orders to a host's first process."""

    def command(self, name: str, run: HostCommand, descriptors: tuple[int, int]) -> None: ...

    def signal(self, name: str, number: int) -> None: ...

    def shut_down(self) -> None: ...

    def reboot(self) -> None: ...

    def power_off(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class Host:
    instance: HostInstance
    number: int  # in its network, and never that of another one
    root: str  # what its files are made of
    state: str = "starting"  # then booting and running, or failed; dead when it has ended
    why: str = ""
    firewall: str = ""
    link_faults: Mapping[str, float] = field(default_factory=dict)
    tier: str = ""  # of yard/machines/isolation/tiers.py: how it is kept apart
    boots: str = ""  # of boot_ways.py: how it starts
    console: Console = field(default_factory=Console)
    process: int = 0  # its first one, as this machine numbers it
    namespaces: Mapping[str, str] = field(default_factory=dict)  # its own, as /proc names them
    link: FirstProcess | None = None
    environment: Mapping[str, str] = field(default_factory=dict)  # of what is run there
    said: Callable[[str], str] = str  # what a machine's paths are called there
    # Who hears of the end of a command there, by its name: the code, or None where the host is gone.
    hears_end: dict[str, Callable[[int | None], None]] = field(default_factory=dict)
    is_impaired: bool = False  # so that EC2's check of the instance fails, though its system runs
    was_shut_down: bool = False  # from inside, as by `poweroff`
    is_expected_to_end: bool = False
    ended: threading.Event = field(default_factory=threading.Event)


hosts: dict[str, Host] = {}  # by the id of the instance
changed = threading.Condition(threading.RLock())


def set_state(host: Host, state: str, why: str = "") -> None:
    with changed:
        host.state, host.why = state, why or host.why
        changed.notify_all()


def is_down(host: Host) -> bool:
    """Return True where a host that is called failed has no system that AWS could reach.

    A unit or user data that failed leaves a system that answers; an imitated boot has no system of its own.
    """
    has_system = bool(host.process) and host.boots == boot_ways.SYSTEMD
    return host.state == "failed" and (host.is_impaired or not has_system)


def find(text: str) -> Host:
    """Return the one host with this name, id, address, or unambiguous prefix; else raise ValueError."""
    with changed:
        known = list(hosts.values())
    exact = [each for each in known if text in _names(each)]
    found = exact or [each for each in known if text and any(name.startswith(text) for name in _names(each))]
    if len(found) != 1:
        listed = ", ".join(f"{each.instance.name} ({each.instance.id})" for each in known) or "none"
        raise ValueError(f"'{text}' matches {len(found)} hosts; name one of: {listed}")
    return found[0]


def _names(host: Host) -> tuple[str, ...]:
    instance = host.instance
    return instance.name, instance.hostname, instance.id, instance.address


# An instance as the yard's hosts know it.


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInstance:
    """An instance as EC2 has it. Equal ones need nothing done."""

    id: str
    region: str
    group: str
    cluster: str
    vpc: str
    subnet: str
    address: str
    prefix_length: int  # of the VPC: all of it is one link here
    hostname: str
    image: str
    instance_type: str
    life_cycle: str  # how it was bought: on-demand, spot or capacity-block
    zone: str
    user_data: str  # base64; empty where there is none
    profile_arn: str
    role: str  # of the profile
    launched_at: str
    key_name: str
    tags: Mapping[str, str]
    is_service: bool = False  # no instance, but a host of service_hosts.py

    @property
    def name(self) -> str:
        return self.hostname.partition(".")[0]
