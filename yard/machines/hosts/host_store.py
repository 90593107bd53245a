"""All hosts of this yard, and their one lock; every change notifies those who wait on it.

A host in one of these is not on its way to another.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from slipway.yard.machines.hosts import boot_ways

# What a host has printed on its console since it was launched: as on EC2, the last 64 KB of it.
MOST_BYTES = 64 * 1024
# A unit that nobody would miss until it is wanted: systemd tells of it in one line and starts without it.
_DROPPED = re.compile(r"Job (\S+)/start deleted to break ordering cycle")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\r")


class Console:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept = ""
        self._dropped: dict[str, None] = {}

    def begin_boot(self) -> None:
        """Keep the text, and forget what was true of the boot before."""
        with self._lock:
            self._dropped.clear()

    def add(self, line: str) -> str:
        """Keep the line; return it as a log shows it."""
        plain = _COLOURS.sub("", line).rstrip()
        with self._lock:
            self._kept = f"{self._kept}{plain}\n"[-MOST_BYTES:]
            self._dropped.update(dict.fromkeys(_DROPPED.findall(plain)))
        return plain

    @property
    def text(self) -> str:
        with self._lock:
            return self._kept

    def dropped_units(self) -> list[str]:
        """Name the units that systemd did not start at this boot because they were ordered in a circle."""
        with self._lock:
            return list(self._dropped)


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
    if not known:
        raise ValueError(f"there is no host, so none that '{text}' names; a job of MPI or Slurm starts some")
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
