"""Holds the network of one VPC and its hosts, as one process tree: `python -m … TIER DESCRIPTOR`.

The yard sends orders over a socket, such as which host to start or kill, and its firewall. When the yard
ends, so does everything here. Standard library only. To add an order: a method and its line in _ORDERS.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from slipway.yard.machines.hosts.inside import booted, cgroups, init
from slipway.yard.machines.isolation import kernel, links, namespaces, processes

LARGEST_ORDER = 1 << 17  # a firewall of some hundred rules
METADATA_ADDRESS = "169.254.169.254"
_DESCRIPTORS = 1
_WAITED_FOR = ("firewall", "link")  # the yard goes on once it hears that they are done
_FIRST_PORT_OF_ANYBODY = "/proc/sys/net/ipv4/ip_unprivileged_port_start"


def main(tier: str, descriptor: str) -> NoReturn:
    control = socket.socket(fileno=int(descriptor))
    os.set_inheritable(control.fileno(), False)
    namespaces.enter_network(tier, control)
    NetworkProcess(control).run(namespaces.wake_on_children())


class NetworkProcess:
    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.holders: dict[int, int] = {}  # child process -> its host
        self.first: dict[int, int] = {}  # host -> its first process
        self.groups: dict[int, str] = {}  # host that boots systemd -> its control group

    def run(self, awake: int) -> NoReturn:
        while True:
            readable, _, _ = select.select([self.control.fileno(), awake], [], [])
            if awake in readable:
                os.read(awake, 4096)
                self._reap()
            if self.control.fileno() in readable:
                self._obey(*socket.recv_fds(self.control, LARGEST_ORDER, _DESCRIPTORS)[:2])

    def start(self, number: int, order: Mapping[str, Any], link: int) -> None:
        """Start a host; it waits until its network is set up."""
        plan = json.loads(Path(order["plan"]).read_text(encoding="utf-8"))
        (go, start), (up, told) = os.pipe(), os.pipe()
        holder = os.fork()
        if holder == 0:
            namespaces.sleep_through_children()
            _close_all_but(link, go, told)
            _hold(plan, link, go, told)
        for descriptor in (go, told, link):
            os.close(descriptor)
        self.holders[holder] = number
        self.first[number] = int(os.read(up, 32) or b"0")
        self.groups[number] = plan.get("cgroup", "")
        os.close(up)
        namespaces.ip(*namespaces.cable(number, holder))
        # AWS's addresses (metadata, DNS) are on the host's loopback device.
        served = filter(None, (METADATA_ADDRESS, plan.get("resolver")))
        local = [f"addr add {address}/32 dev lo" for address in served]
        lines = ("link set lo up", *local, f"addr add {plan['address']} dev eth0")
        namespaces.ip(*lines, before=_joins(holder))
        if not plan["is_root"]:  # its sshd does not run as root, but needs port 22
            _in_network_of(holder, ["sh", "-c", f"echo 0 >{_FIRST_PORT_OF_ANYBODY}"])
        if plan["firewall"]:
            _set_firewall(holder, plan["firewall"])
        _in_network_of(holder, ["ip", "link", "set", "eth0", "up"])
        os.write(start, b"g")
        os.close(start)

    def firewall(self, number: int, order: Mapping[str, Any], _link: int) -> None:
        _set_firewall(self._holder(number), order["rules"])

    def link(self, number: int, order: Mapping[str, Any], _link: int) -> None:
        holder = self._holder(number)
        if problem := links.set_up(order["faults"], _joins(holder)):
            self._tell("limited", number, why=problem)

    def kill(self, number: int, _order: Mapping[str, Any], _link: int) -> None:
        """Kill a host as a power failure does: all its processes end with its first one."""
        if number in self.holders.values() and self.first[number]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.first[number], signal.SIGKILL)

    def _holder(self, number: int) -> int:
        return next(holder for holder, held in self.holders.items() if held == number)

    def _obey(self, said: bytes, descriptors: list[int]) -> None:
        if not said:  # the yard is gone, or has closed this network
            self._end()
        order = json.loads(said)
        link = descriptors[0] if descriptors else -1
        try:
            _ORDERS[order["do"]](self, order["host"], order, link)
        except StopIteration:
            return  # the host has ended meanwhile
        except (OSError, subprocess.CalledProcessError) as error:
            self._tell("failed", order["host"], why=repr(error))
            self.kill(order["host"], order, -1)
        finally:
            if order["do"] in _WAITED_FOR:
                self._tell("obeyed", order["host"])

    def _reap(self) -> None:
        for ended, _ in processes.ended_children():
            if ended in self.holders:
                number = self.holders.pop(ended)
                if group := self.groups.pop(number, ""):
                    cgroups.remove(group)
                self._tell("ended", number)

    def _end(self) -> NoReturn:
        """End all hosts, remove their control groups, and exit."""
        for number in list(self.holders.values()):
            self.kill(number, {}, -1)
        with contextlib.suppress(OSError):  # the children are gone
            while self.holders:
                ended, _ = os.waitpid(-1, 0)
                if group := self.groups.get(self.holders.pop(ended, -1)):
                    cgroups.remove(group)
        os._exit(0)

    def _tell(self, event: str, host: int, **more: str) -> None:
        self.control.send(json.dumps({"event": event, "host": host, **more}).encode())


_ORDERS: Mapping[str, Callable[[NetworkProcess, int, Mapping[str, Any], int], None]] = {
    "start": NetworkProcess.start,
    "firewall": NetworkProcess.firewall,
    "kill": NetworkProcess.kill,
    "link": NetworkProcess.link,
}


def _hold(plan: Mapping[str, Any], link: int, go: int, told: int) -> NoReturn:
    """Make the host's namespaces and its first process, which must be a child of their maker."""
    with contextlib.suppress(OSError):
        kernel.die_with_parent()
        kernel.unshare(namespaces.OF_A_MACHINE)
        first = os.fork()
        if first == 0:
            kernel.die_with_parent()
            os.close(told)
            os.read(go, 1)
            os.close(go)
            become = booted.become if plan.get("boots") else init.become
            become(plan, socket.socket(fileno=link))
        os.write(told, str(first).encode())
        _close_all_but()
        os.waitpid(first, 0)
    os._exit(0)


def _set_firewall(holder: int, rules: str) -> None:
    _in_network_of(holder, ["nft", "-f", "-"], rules)


def _in_network_of(holder: int, command: list[str], text: str = "") -> None:
    """Run this machine's program in the host's network: the host's own may be missing or different."""
    subprocess.run(command, input=text, text=True, check=True, preexec_fn=_joins(holder))


def _joins(holder: int) -> Callable[[], None]:
    return lambda: kernel.join(f"/proc/{holder}/ns/net", kernel.NEW_NETWORK)


def _close_all_but(*kept: int) -> None:
    """Close all other descriptors, which belong to the network and to other hosts."""
    last = 2
    for descriptor in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(last + 1, descriptor)
        last = descriptor


if __name__ == "__main__":
    main(*sys.argv[1:])
