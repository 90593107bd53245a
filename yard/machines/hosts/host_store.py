"""All hosts of this yard and their instances, and one lock for them, which is notified of every change."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slipway.yard.machines.hosts import boot_ways
from slipway.yard.machines.hosts.host_processes import HostChannel

# The console keeps the last 64 KB that a host has printed since its launch, as on EC2.
MOST_BYTES = 64 * 1024
# systemd logs one line for a unit that it drops, and starts without it.
_DROPPED = re.compile(r"Job (\S+)/start deleted to break ordering cycle")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\r")


class Console:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept = ""
        self._dropped: dict[str, None] = {}

    def begin_boot(self) -> None:
        """Begin another boot: keep the text, but forget the dropped units."""
        with self._lock:
            self._dropped.clear()

    def add(self, line: str) -> str:
        """Keep the line; return it as a log should show it."""
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
        """Return the units that systemd dropped at this boot because their order had a cycle."""
        with self._lock:
            return list(self._dropped)


SETTLED = ("running", "dead", "failed")  # a host in another state is about to change


@dataclass(slots=True, kw_only=True)
class Host:
    instance: HostInstance
    number: int  # unique in its network, never reused
    root: str  # the root file system that its files come from
    state: str = "starting"  # then booting, then running or failed; dead when it has ended
    why: str = ""
    firewall: str = ""
    link_faults: Mapping[str, float] = field(default_factory=dict)
    tier: str = ""  # its isolation (yard/machines/isolation/tiers.py)
    boots: str = ""  # how it boots (boot_ways.py)
    console: Console = field(default_factory=Console)
    process: int = 0  # pid of its first process, in this machine's numbers
    namespaces: Mapping[str, str] = field(default_factory=dict)  # of its first process, as /proc names them
    link: HostChannel | None = None
    environment: Mapping[str, str] = field(default_factory=dict)  # of its commands
    said: Callable[[str], str] = str  # translates a machine's paths into this host's
    # Command name -> callback for its end: gets the exit code, or None if the host is gone.
    end_callbacks: dict[str, Callable[[int | None], None]] = field(default_factory=dict)
    is_impaired: bool = False  # EC2's instance status check fails, although the system runs
    was_shut_down: bool = False  # from inside, for example by `poweroff`
    is_expected_to_end: bool = False
    ended: threading.Event = field(default_factory=threading.Event)


hosts: dict[str, Host] = {}  # by instance id
changed = threading.Condition(threading.RLock())


def set_state(host: Host, state: str, why: str = "") -> None:
    with changed:
        host.state, host.why = state, why or host.why
        changed.notify_all()


def is_down(host: Host) -> bool:
    """Return True if a failed host has no system that answers AWS.

    After a failed unit or failed user data the system still answers; an imitated boot has no system.
    """
    has_system = bool(host.process) and host.boots == boot_ways.SYSTEMD
    return host.state == "failed" and (host.is_impaired or not has_system)


def find(text: str) -> Host:
    """Return the one host with this name, id, address, or unambiguous prefix; else raise ValueError."""
    with changed:
        known = list(hosts.values())
    exact = [host for host in known if text in _names(host)]
    found = exact or [host for host in known if text and any(name.startswith(text) for name in _names(host))]
    if not known:
        raise ValueError(f"no host '{text}': there are no hosts; a job of MPI or Slurm starts some")
    if len(found) != 1:
        listed = ", ".join(f"{host.instance.name} ({host.instance.id})" for host in known) or "none"
        raise ValueError(f"'{text}' matches {len(found)} hosts; name one of: {listed}")
    return found[0]


def _names(host: Host) -> tuple[str, ...]:
    instance = host.instance
    return instance.name, instance.hostname, instance.id, instance.address


# The facts of an instance that its host depends on.


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInstance:
    """An instance as EC2 has it. If it is unchanged, its host needs no change."""

    id: str
    region: str
    group: str
    cluster: str
    vpc: str
    subnet: str
    address: str
    prefix_length: int  # of the whole VPC, which is one network link here
    hostname: str
    image: str
    instance_type: str
    life_cycle: str  # how it was bought: on-demand, spot or capacity-block
    zone: str
    user_data: str  # base64; empty if there is none
    profile_arn: str
    role: str  # the instance profile's
    launched_at: str
    key_name: str
    tags: Mapping[str, str]
    is_service: bool = False  # not an instance, but a host of service_hosts.py

    @property
    def name(self) -> str:
        return self.hostname.partition(".")[0]
