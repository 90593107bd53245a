"""Keeps the hosts as EC2 has its instances: starts, ends and replaces them, and sets their firewalls.

One thread, that looks when something may have changed; `noticed` hears of every call to the yard.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable

from slipway.yard.endpoint import own_client
from slipway.yard.machines.hosts import book, firewall, machines, plain, plan
from slipway.yard.machines.hosts.book import Host
from slipway.yard.machines.hosts.links import Event, Network, start_plain
from slipway.yard.machines.hosts.machines import Machine
from slipway.yard.machines.hosts.residents import Resident
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.services.imagebuilder import store

log = logging.getLogger("yard.hosts")

HOSTS_VARIABLE = "SLIPWAY_YARD_HOSTS"
NO_HOSTS = "none"  # instances are then records of moto's, and no more
REPLACE_VARIABLE = "SLIPWAY_YARD_REPLACE_SECONDS"
REPLACE_S = 5.0  # until a dead instance is found unhealthy; minutes on AWS
END_TIMEOUT_S = 5.0
# Calls to these change which hosts there are, or what their firewalls let in.
WATCHED = ("autoscaling", "ec2")
ONLY_READ = ("Describe", "Get", "List")

_networks: dict[tuple[str, str], Network] = {}  # (region, VPC)
_numbers: dict[tuple[str, str], int] = {}  # how many hosts each has had
_asked = threading.Event()
_started = threading.Lock()  # taken by the first caller, for ever
_working = threading.Lock()  # held while hosts are started and ended


def are_kept() -> bool:
    """Whether instances are hosts, and no mere records."""
    return os.environ.get(HOSTS_VARIABLE) != NO_HOSTS


def noticed(service: str, operation: str) -> None:
    """After a call was carried out."""
    if not are_kept():
        return
    if service in WATCHED and not operation.startswith(ONLY_READ):
        wake()


def wake() -> None:
    _asked.set()
    if _started.acquire(blocking=False):
        atexit.register(reset)
        threading.Thread(target=_keep, name="hosts keeper", daemon=True).start()


def kill(host: Host) -> None:
    """As a machine that loses its power: nobody on it hears a signal."""
    if best_tier().isolated:
        _network(host.machine).kill(host.number)
    elif host.link:
        host.link.power_off()


def wait_until_settled(timeout_s: float) -> bool:
    """Whether everything that was asked for so far is done: hosts have booted, firewalls are set."""
    deadline = time.monotonic() + timeout_s
    with book.changed:
        return book.changed.wait_for(_is_settled, max(0.0, deadline - time.monotonic()))


def reset() -> None:
    """Every process of every host ends, and their folders go."""
    with _working:
        for host in book.hosts.values():
            host.is_expected_to_end = True
        for network in _networks.values():
            network.close()
        _networks.clear()
        for host in book.hosts.values():
            if host.link and not best_tier().isolated:
                host.link.power_off()
        for host in list(book.hosts.values()):
            host.ended.wait(END_TIMEOUT_S)
        with book.changed:
            book.hosts.clear()
            book.changed.notify_all()
        plain.remove_made()
        shutil.rmtree(plan.root(), ignore_errors=True)


def _is_settled() -> bool:
    is_idle = not _asked.is_set() and not _working.locked()
    return is_idle and all(host.state in book.SETTLED for host in book.hosts.values())


def _keep() -> None:
    while True:
        _asked.wait()
        with _working:
            _asked.clear()  # who asks from here on is looked after in the next round
            try:
                _look()
            except Exception:
                log.exception("the keeper of hosts failed")
        with book.changed:
            book.changed.notify_all()


def _look() -> None:
    wanted = {machine.id: machine for machine in machines.wanted()}
    ending = [host for identifier, host in book.hosts.items() if identifier not in wanted]
    for host in ending:
        _tell_to_end(host)
    for host in ending:
        _end(host)
    for identifier, machine in wanted.items():
        if identifier not in book.hosts:
            _start(machine)
    for host in list(book.hosts.values()):
        if host.machine.id in wanted:
            host.machine = wanted[host.machine.id]  # its role and its tags change while it runs
            _set_firewall(host)
    _close_empty_networks()
    _fill_up()


def _start(machine: Machine) -> None:
    place = (machine.region, machine.vpc)
    _numbers[place] = _numbers.get(place, 0) + 1
    rules = _rules(machine)
    root = "machine image" if store.root_of(machine.image) else "this machine's files"
    host = Host(machine=machine, number=_numbers[place], root=root, firewall=rules, tier=best_tier().name)
    with book.changed:
        book.hosts[machine.id] = host
    resident = Resident(host, on_end=_has_ended)
    (_start_isolated if best_tier().isolated else _start_plain)(host, resident)
    log.info("%s: starts as %s", machine.name, machine.id)


def _start_isolated(host: Host, resident: Resident) -> None:
    host.environment = plan.environment()
    file = plan.write(host.machine, best_tier(), host.firewall)
    host.link = _network(host.machine).start(host.number, file, resident.hears)


def _start_plain(host: Host, resident: Resident) -> None:
    plain.make_folder_of_sshd()
    written = plan.write_plain(host.machine)
    host.environment, host.said = written.environment, written.said
    resident.own_metadata = written.metadata
    host.link = start_plain(written.file, resident.hears)


def _network(machine: Machine) -> Network:
    place = (machine.region, machine.vpc)
    if place not in _networks or not _networks[place].is_alive():
        _networks[place] = Network(best_tier().name, machine.vpc, _of_network(place))
    return _networks[place]


def _of_network(place: tuple[str, str]) -> Callable[[Event], None]:
    """What a network tells of its hosts; what they tell themselves comes over their own links."""

    def heard(event: Event) -> None:
        if event.name != "failed":
            return
        with book.changed:
            failed = [
                host
                for host in book.hosts.values()
                if (host.machine.region, host.machine.vpc) == place and host.number == event.said["host"]
            ]
        for host in failed:
            book.set_state(host, "failed", event.said["why"])
            log.error("%s: cannot be made: %s", host.machine.name, event.said["why"])

    return heard


def _tell_to_end(host: Host) -> None:
    """As EC2 ends an instance: it is told, and then it is off."""
    host.is_expected_to_end = True
    if host.link and not host.ended.is_set():
        host.link.shut_down()


def _end(host: Host) -> None:
    if not host.ended.wait(END_TIMEOUT_S):
        kill(host)
    with book.changed:
        book.hosts.pop(host.machine.id, None)
    shutil.rmtree(plan.root() / host.machine.id, ignore_errors=True)
    log.info("%s: has ended", host.machine.name)


def _rules(machine: Machine) -> str:
    return firewall.ruleset(machines.rules(machine)) if firewall.is_enforced() else ""


def _set_firewall(host: Host) -> None:
    rules = _rules(host.machine)
    if rules != host.firewall and host.state != "dead":
        _network(host.machine).set_firewall(host.number, rules)
        host.firewall = rules


def _close_empty_networks() -> None:
    used = {(host.machine.region, host.machine.vpc) for host in book.hosts.values()}
    for place in set(_networks) - used:
        _networks.pop(place).close()


def _fill_up() -> None:
    """A group whose launches were suspended starts what it lacks when they are resumed; moto waits."""
    from slipway.yard.machines.hosts.machines import is_suspended

    for group in machines.groups() if book.hosts or machines.wanted() else ():
        lacks = len(group.active_instances()) < (group.desired_capacity or 0)
        if lacks and not is_suspended(group, "Launch"):
            group.set_desired_capacity(group.desired_capacity)
            _asked.set()


def _has_ended(host: Host) -> None:
    """It died though nobody ended its instance: the group finds it unhealthy after a while."""
    _mark_unhealthy(host)
    timer = threading.Timer(_replace_s(), _replace, [host])
    timer.daemon = True
    timer.start()


def _mark_unhealthy(host: Host) -> None:
    for group in machines.groups():
        for state in group.instance_states:
            if state.instance.id == host.machine.id:
                state.health_status = "Unhealthy"


def _replace(host: Host) -> None:
    from slipway.yard.machines.hosts.machines import is_suspended

    group = next((each for each in machines.groups() if each.name == host.machine.group), None)
    is_known = any(each.id == host.machine.id for each in machines.wanted())
    stopped = group is None or any(
        is_suspended(group, process) for process in ("HealthCheck", "ReplaceUnhealthy", "Terminate")
    )
    if is_known and not stopped:
        log.info("%s: is replaced", host.machine.name)
        own_client("ec2", host.machine.region).terminate_instances(InstanceIds=[host.machine.id])


def _replace_s() -> float:
    return float(os.environ.get(REPLACE_VARIABLE) or REPLACE_S)
