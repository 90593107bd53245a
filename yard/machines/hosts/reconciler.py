"""Keeps the hosts in step with EC2's instances: starts, ends and replaces them, and sets their firewalls.

One thread does this when something may have changed; `noticed` is told of calls that change instances.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable

from slipway.yard.chaos import conditions
from slipway.yard.errors import going_on
from slipway.yard.machines import image_store
from slipway.yard.machines.hosts import boot_ways, firewall, host_store, instances, service_hosts
from slipway.yard.machines.hosts.boot_ways import tier_of
from slipway.yard.machines.hosts.host_processes import HostEvent, VpcNetwork, start_plain
from slipway.yard.machines.hosts.host_session import HostSession
from slipway.yard.machines.hosts.host_store import Host, HostInstance
from slipway.yard.machines.hosts.inside import cgroups
from slipway.yard.machines.hosts.planning import plain, plan
from slipway.yard.machines.isolation.tiers import best_tier

log = logging.getLogger("yard.hosts")

HOSTS_VARIABLE = "SLIPWAY_YARD_HOSTS"
NO_HOSTS = "none"  # instances are then only records in moto
END_TIMEOUT_S = 5.0
SHUT_DOWN_S = 15.0  # for a host's own systemd; EC2 waits minutes before it turns an instance off
ONLY_READ = ("Describe", "Get", "List")

_networks: dict[tuple[str, str], VpcNetwork] = {}  # (region, VPC)
_numbers: dict[tuple[str, str], int] = {}  # (region, VPC) -> how many hosts it has had
_asked = threading.Event()
_started = threading.Lock()  # the first caller takes it forever
_working = threading.Lock()  # held while hosts are started and ended


def are_kept() -> bool:
    """Return True if instances get hosts and are not just records."""
    return os.environ.get(HOSTS_VARIABLE) != NO_HOSTS


def noticed(operation: str) -> None:
    """Wake the reconciler if this call to EC2 or Auto Scaling may change hosts or firewalls."""
    if are_kept() and not operation.startswith(ONLY_READ):
        with host_store.changed:
            for host in host_store.hosts.values():
                _show_shutting_down(host)  # before the caller asks; its host still runs
        wake()


def wake() -> None:
    _asked.set()
    if _started.acquire(blocking=False):
        atexit.register(reset)
        cgroups.remove_left_over()
        threading.Thread(target=_reconcile_forever, name="hosts reconciler", daemon=True).start()


def wake_if_kept() -> None:
    """Wake the reconciler after a change that was not a call, if instances get hosts."""
    if are_kept():
        wake()


def kill(host: Host) -> None:
    """Kill the host as a power failure would: no process on it gets a signal."""
    if _is_isolated(host):
        _network(host.instance).kill(host.number)
    elif host.link:
        host.link.power_off()


def reboot(host: Host) -> None:
    """Restart the host's system; raises ValueError for one that has none."""
    if host.boots != boot_ways.SYSTEMD:
        why = boot_ways.obstacle(host.instance.image)
        raise ValueError(f"host {host.instance.name} cannot be rebooted, since its boot is imitated: {why}")
    if not host.process or not host.link:
        raise ValueError(f"host {host.instance.name} is {host.state} and cannot be rebooted")
    host.link.reboot()


def start_again(identifier: str) -> None:
    """Start a service's dead host again; its data is in folders of this machine."""
    with _working, host_store.changed:
        found = host_store.hosts.get(identifier)
        if found is None or not found.ended.is_set():
            return
        del host_store.hosts[identifier]
        shutil.rmtree(plan.root() / identifier, ignore_errors=True)
    wake()


def wait_until_settled(timeout_s: float) -> bool:
    """Return True once all changes so far are done: hosts have booted, firewalls are set."""
    deadline = time.monotonic() + timeout_s
    with host_store.changed:
        return host_store.changed.wait_for(_is_settled, max(0.0, deadline - time.monotonic()))


def reset() -> None:
    """End every process of every host, and delete their folders."""
    service_hosts.reset()
    with _working:
        for host in host_store.hosts.values():
            host.is_expected_to_end = True
        for network in _networks.values():
            network.close()
        _networks.clear()
        for host in host_store.hosts.values():
            if host.link and not _is_isolated(host):
                host.link.power_off()
        for host in list(host_store.hosts.values()):
            host.ended.wait(END_TIMEOUT_S)
        with host_store.changed:
            host_store.hosts.clear()
            host_store.changed.notify_all()
        plain.remove_made()
        shutil.rmtree(plan.root(), ignore_errors=True)


def _is_settled() -> bool:
    is_idle = not _asked.is_set() and not _working.locked() and not instances.are_pending()
    return is_idle and all(host.state in host_store.SETTLED for host in host_store.hosts.values())


def _reconcile_forever() -> None:
    while True:
        _asked.wait()
        with _working:
            _asked.clear()  # later changes are handled in the next round
            with going_on(log, "cannot reconcile the hosts with EC2"):
                _reconcile()
        with host_store.changed:
            host_store.changed.notify_all()


def _reconcile() -> None:
    wanted = {instance.id: instance for instance in instances.wanted()}
    ending = [host for identifier, host in host_store.hosts.items() if identifier not in wanted]
    for host in ending:
        # Ask the host to shut down, as EC2 does before it turns an instance off.
        host.is_expected_to_end = True
        _show_shutting_down(host)
        if host.link and not host.ended.is_set():
            host.link.shut_down()
    for host in ending:
        _end(host)
    for identifier, instance in wanted.items():
        if identifier not in host_store.hosts:
            _start(instance)
    for host in list(host_store.hosts.values()):
        if host.instance.id in wanted:
            host.instance = wanted[host.instance.id]  # its role and its tags change while it runs
            rules = _rules(host.instance)
            if rules != host.firewall and host.state != "dead":
                _network(host.instance).set_firewall(host.number, rules)
                host.firewall, host.link_faults = rules, {}
            _set_link(host)
    used = {(host.instance.region, host.instance.vpc) for host in host_store.hosts.values()}
    for network in set(_networks) - used:
        _networks.pop(network).close()
    if instances.launch_missing():
        _asked.set()


def _start(instance: HostInstance) -> None:
    network = (instance.region, instance.vpc)
    _numbers[network] = _numbers.get(network, 0) + 1
    rules = _rules(instance)
    root = "machine image" if image_store.root_of(instance.image) else "this machine's files"
    host = Host(
        instance=instance,
        number=_numbers[network],
        root=root,
        firewall=rules,
        tier=tier_of(instance.tags).name,
        boots=boot_ways.IMITATED if instance.is_service else boot_ways.way_of(instance.image),
    )
    with host_store.changed:
        host_store.hosts[instance.id] = host
    session = HostSession(host, on_end=instances.has_ended)
    if _is_isolated(host):
        is_real = host.boots == boot_ways.SYSTEMD
        host.environment = plan.real_environment() if is_real else plan.environment()
        file = plan.write(instance, best_tier(), host.firewall, host.boots)
        host.link = _network(instance).start(host.number, file, session.handle)
    else:
        plain.make_folder_of_sshd()
        written = plan.write_plain(instance)
        host.environment, host.said = written.environment, written.said
        session.own_metadata = written.metadata
        host.link = start_plain(written.file, session.handle)
    log.info("starting host %s as %s", instance.name, instance.id)


def _network(instance: HostInstance) -> VpcNetwork:
    network = (instance.region, instance.vpc)
    if network not in _networks or not _networks[network].is_alive():
        _networks[network] = VpcNetwork(best_tier().name, instance.vpc, _network_events(network))
    return _networks[network]


def _network_events(network: tuple[str, str]) -> Callable[[HostEvent], None]:
    """Return the handler of a network's events; hosts report over their own channels."""

    def handle(event: HostEvent) -> None:
        if event.name == "limited":
            log.warning("cannot apply the network faults to a host's link: %s", event.said["why"])
        if event.name != "failed":
            return
        with host_store.changed:
            failed = [
                host
                for host in host_store.hosts.values()
                if (host.instance.region, host.instance.vpc) == network and host.number == event.said["host"]
            ]
        for host in failed:
            host_store.set_state(host, "failed", event.said["why"])
            log.error("cannot start host %s: %s", host.instance.name, event.said["why"])

    return handle


def _show_shutting_down(host: Host) -> None:
    if host.link and not host.ended.is_set():
        instances.keep_shutting_down(host)


def _end(host: Host) -> None:
    if not host.ended.wait(SHUT_DOWN_S if host.boots == boot_ways.SYSTEMD else END_TIMEOUT_S):
        kill(host)
    with host_store.changed:
        host_store.hosts.pop(host.instance.id, None)
        instances.turned_off(host)
    shutil.rmtree(plan.root() / host.instance.id, ignore_errors=True)
    log.info("host %s has ended", host.instance.name)


def _is_isolated(host: Host) -> bool:
    return tier_of(host.instance.tags).isolated


def _rules(instance: HostInstance) -> str:
    is_enforced = firewall.is_enforced() and tier_of(instance.tags).isolated
    return firewall.ruleset(instances.rules(instance)) if is_enforced else ""


def _set_link(host: Host) -> None:
    """Apply the network faults to the host's link, again after a new firewall, which removes packet loss."""
    faults = conditions.faults_of_links()
    if faults != host.link_faults and host.state != "dead" and _is_isolated(host):
        _network(host.instance).set_link(host.number, faults)
        host.link_faults = faults
