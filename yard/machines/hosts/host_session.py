"""One running host, from the yard's side: its log, its listeners, its events, its checkup and its DNS server.

To add an event: a method of HostSession and its line in _HANDLERS.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slipway.yard.machines import api_proxy, image_store
from slipway.yard.machines.hosts import boot_ways, host_store, metadata
from slipway.yard.machines.hosts.host_processes import HostCommand, HostEvent
from slipway.yard.machines.hosts.host_store import Host
from slipway.yard.machines.hosts.planning import boot, own_files, plan

# The checkup asks systemd and cloud-init, once a host has booted, what failed to start. The result is for
# users and the list of hosts: EC2 itself notices only a system that stopped half-way. A host without a
# program that every image has counts as impaired, too, since an instance on AWS would have it.
NAME = "checkup"
# systemctl(1), is-system-running: systemd waits for an administrator at the console, which does not exist.
_STUCK = "maintenance"
_SCRIPT = """\
echo "state $(systemctl is-system-running)"
systemctl list-units --state=failed --plain --no-legend --no-pager | while read -r unit _; do
  echo "unit $unit"
done
if [ -e /run/cloud-init/result.json ]; then
  echo "result $(tr -d '\\n' </run/cloud-init/result.json)"
fi
"""
_ERROR = re.compile(r"^\('([\w-]+)', (.*)\)$")  # how cloud-init 22 writes the error of a module
_OF_CLOUD_INIT = "cloud-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    reasons: Sequence[str]  # what is wrong with the host; empty: nothing
    is_stuck: bool  # the boot stopped before its network and its services
    lacks_programs: bool  # programs of our images are missing


def start(host: Host, tell: Callable[[Findings], None]) -> None:
    """Run the checkup in the host; another thread passes the findings to `tell`."""
    assert host.link
    # Programs that jobs need although no unit starts them, each by its possible names.
    programs = [("sshd",), *boot.programs(boot.read_user_data(host.instance.user_data))]
    looks = (
        f"{{ {' || '.join(f'command -v {shlex.quote(name)}' for name in names)}; }} >/dev/null"
        f" || echo missing {shlex.quote(names[0])}\n"
        for names in programs
    )
    command = HostCommand(argv=("sh", "-c", _SCRIPT + "".join(looks)))
    (reading, output), errors = os.pipe(), os.open(os.devnull, os.O_WRONLY)
    host.link.command(NAME, command, (output, errors))
    os.close(output)
    os.close(errors)
    threading.Thread(target=_read, args=(host, reading, tell), name=f"checkup {host.number}").start()


def findings(report: str, dropped: Iterable[str], mend: str) -> Findings:
    """Return the findings from the script's output."""
    told = [line.partition(" ")[::2] for line in report.splitlines()]
    state = next((rest for word, rest in told if word == "state"), "")
    errors = [error for word, rest in told if word == "result" for error in _errors(rest)]
    units = [rest for word, rest in told if word == "unit"]
    missing = [rest for word, rest in told if word == "missing"]
    is_stuck = state == _STUCK
    return Findings(
        is_stuck=is_stuck,
        lacks_programs=bool(missing),
        reasons=[
            *(["it stopped in systemd's emergency mode; see its console"] if is_stuck else []),
            *(f"{name} is not there; {mend}" for name in missing),
            *(f"{error}; what it said: /var/log/cloud-init-output.log of the host" for error in errors),
            *(
                f"{unit} failed; what it said: journalctl -u {unit}, on the host"
                for unit in units
                if not (errors and unit.startswith(_OF_CLOUD_INIT))
            ),
            *(f"{unit} was not started: systemd found it ordered in a circle" for unit in dropped),
        ],
    )


def _errors(result: str) -> list[str]:
    try:
        errors = json.loads(result)["v1"]["errors"]
    except (ValueError, KeyError, TypeError):
        return ["cloud-init left no result"]
    return [_ERROR.sub(r"\1 of cloud-init failed: \2", str(error)) for error in errors]


def _read(host: Host, descriptor: int, tell: Callable[[Findings], None]) -> None:
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as output:
        text = output.read()
    is_baked = image_store.root_of(host.instance.image) is not None
    mend = own_files.BAKE_AGAIN if is_baked else own_files.INSTALL
    if text:  # empty if the host went down meanwhile
        tell(findings(text, host.console.dropped_units(), mend))


log = logging.getLogger("yard.hosts")

_PROCESS = re.compile(r"^Pid:\s*(\d+)", re.MULTILINE)


class HostSession:
    def __init__(self, host: Host, on_end: Callable[[Host], None]) -> None:
        self.host, self.on_end = host, on_end
        self.doors: list[socket.socket] = []
        self.has_started = False
        self.own_metadata: socket.socket | None = None  # only for a host without its own network

    def handle(self, event: HostEvent) -> None:
        _HANDLERS[event.name](self, event)

    def up(self, event: HostEvent) -> None:
        output, *doors = event.descriptors
        threading.Thread(target=_follow, args=(output, self.host), daemon=True).start()
        self.doors = [socket.socket(fileno=door) for door in doors]
        if self.own_metadata:
            self.doors.append(self.own_metadata)
        for door, serve in zip(self.doors, self._services(), strict=True):
            serve(door, self.host)
        host_store.set_state(self.host, "booting")

    def _services(self) -> tuple[Callable[[socket.socket, Host], None], ...]:
        """List the servers for the host's listeners, in the order in which its first process opens them."""
        if self.own_metadata:
            return (metadata.serve,)
        if self.host.boots != boot_ways.SYSTEMD:
            return (_serve_api, metadata.serve)
        return (_serve_api, metadata.serve, partial(metadata.serve, is_open=True), serve)

    def first(self, event: HostEvent) -> None:
        """Note the host's first process, which is another one after each boot."""
        (pidfd,) = event.descriptors
        self.has_started = True
        self.host.namespaces = event.said["namespaces"]
        # A pidfd's pid in this machine's numbers, not the host's.
        found = _PROCESS.search(Path(f"/proc/self/fdinfo/{pidfd}").read_text(encoding="ascii"))
        self.host.process = int(found[1]) if found else 0
        os.close(pidfd)

    def booted(self, _event: HostEvent) -> None:
        if self.host.boots == boot_ways.SYSTEMD:
            start(self.host, self._has_been_checked)
        else:
            self._runs()

    def _has_been_checked(self, found: Findings) -> None:
        if not found.reasons:
            self._runs()
            return
        why = "; ".join(found.reasons)
        self.host.is_impaired = found.is_stuck or found.lacks_programs
        host_store.set_state(self.host, "failed", why)
        log.error("host %s has booted, but %s", self.host.instance.name, why)
        if found.is_stuck:  # a replacement helps; it would not against missing programs
            self.on_end(self.host)

    def _runs(self) -> None:
        host_store.set_state(self.host, "running")
        log.info("host %s has booted", self.host.instance.name)

    def reboots(self, _event: HostEvent) -> None:
        self.host.process, self.host.namespaces = 0, {}
        self.host.console.begin_boot()
        host_store.set_state(self.host, "booting")
        log.info("host %s reboots", self.host.instance.name)

    def stopped(self, event: HostEvent) -> None:
        """Handle the end of systemd: it has shut down, died or never started."""
        self.host.was_shut_down = event.said["code"] == 0
        if not self.has_started:
            last = self.host.console.text.strip().rpartition("\n")[2] or "it says nothing"
            self.failed(HostEvent(name="failed", said={"why": f"systemd-nspawn cannot start it: {last}"}))

    def failed(self, event: HostEvent) -> None:
        host_store.set_state(self.host, "failed", event.said["why"])
        log.error("host %s cannot boot: %s", self.host.instance.name, event.said["why"])

    def done(self, event: HostEvent) -> None:
        if notify := self.host.end_callbacks.pop(event.said["id"], None):
            notify(event.said["code"])

    def gone(self, _event: HostEvent) -> None:
        for door in self.doors:
            api_proxy.close(door)
        for name in list(self.host.end_callbacks):
            self.host.end_callbacks.pop(name)(None)
        is_system = self.host.boots == boot_ways.SYSTEMD and self.has_started
        has_failed = self.host.state == "failed" and not is_system  # a replacement would fail as well
        if not has_failed:
            host_store.set_state(self.host, "dead")
        self.host.ended.set()
        if not has_failed and not self.host.is_expected_to_end:
            log.warning("host %s died", self.host.instance.name)
            self.on_end(self.host)


_HANDLERS: Mapping[str, Callable[[HostSession, HostEvent], None]] = {
    "up": HostSession.up,
    "first": HostSession.first,
    "reboots": HostSession.reboots,
    "stopped": HostSession.stopped,
    "booted": HostSession.booted,
    "failed": HostSession.failed,
    "done": HostSession.done,
    "gone": HostSession.gone,
}


def _serve_api(door: socket.socket, host: Host) -> None:
    api_proxy.serve(door, plan.port(), host.instance.subnet)


def _follow(descriptor: int, host: Host) -> None:
    """Copy the host's output to its console and to the yard's log."""
    with os.fdopen(descriptor, encoding="utf-8", errors="replace", newline="\n") as output:
        for line in output:
            log.info("%s: %s", host.instance.name, host.console.add(line))


# The VPC's DNS server, at the VPC's base address plus two: it knows only the hosts of the VPC, and answers
# only over UDP, which resolvers try first. It does not know AWS's endpoints: programs on a host have
# AWS_ENDPOINT_URL. Format: RFC 1035, section 4.1.
_HEAD = struct.Struct(">6H")
_LARGEST = 512
_ADDRESS, _INTERNET = 1, 1
_ANSWER, _AUTHORITATIVE, _RECURSION = 0x8000, 0x0400, 0x0080
_ASKED_FOR_RECURSION = 0x0100
_NO_SUCH_NAME = 3
_TTL_S = 60
_SAME_NAME = 0xC000 | _HEAD.size  # a pointer to the name in the question


def serve(door: socket.socket, host: Host) -> None:
    """Answer the host's DNS requests until the socket is closed; only that host's processes reach it."""
    name = f"resolver {host.instance.name}"
    threading.Thread(target=_serve, args=(door, host), name=name, daemon=True).start()


def _serve(door: socket.socket, host: Host) -> None:
    while True:
        try:
            asked, sender = door.recvfrom(_LARGEST)
        except OSError:
            return
        if not sender:  # the socket is being closed
            return
        with suppress(OSError, ValueError, IndexError, struct.error):
            door.sendto(answer(asked, host), sender)


def answer(asked: bytes, host: Host) -> bytes:
    """Answer the first question of a request; raise an error, such as ValueError, for a malformed one."""
    identifier, flags, questions, *_ = _HEAD.unpack_from(asked)
    if flags & _ANSWER or not questions:
        raise ValueError("this is no question")
    at = _HEAD.size
    labels = []
    while length := asked[at]:
        if length > 63:
            raise ValueError("a question's name has no pointers")
        labels.append(asked[at + 1 : at + 1 + length].decode("ascii"))
        at += 1 + length
    name, end = ".".join(labels).lower(), at + 1
    kind, family = struct.unpack_from(">2H", asked, end)
    question = asked[_HEAD.size : end + 4]
    address = _address(name, host)
    records = b""
    if address and (kind, family) == (_ADDRESS, _INTERNET):
        fields = struct.pack(">HHHIH", _SAME_NAME, kind, family, _TTL_S, 4)
        records = fields + socket.inet_aton(address)
    reply_flags = _ANSWER | _AUTHORITATIVE | _RECURSION | flags & _ASKED_FOR_RECURSION
    reply_flags |= 0 if address else _NO_SUCH_NAME
    return _HEAD.pack(identifier, reply_flags, 1, 1 if records else 0, 0, 0) + question + records


def _address(name: str, host: Host) -> str:
    with host_store.changed:
        known = [other.instance for other in host_store.hosts.values()]
    place = (host.instance.region, host.instance.vpc)
    found = (other for other in known if (other.region, other.vpc) == place and other.hostname == name)
    return next((other.address for other in found), "")
