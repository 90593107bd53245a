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

from slipway.yard.chaos import links
from slipway.yard.endpoint import own_client
from slipway.yard.machines import image_store
from slipway.yard.machines.hosts import firewall, host_store, instances
from slipway.yard.machines.hosts.host_processes import HostEvent, VpcNetwork, start_plain
from slipway.yard.machines.hosts.host_session import HostSession
from slipway.yard.machines.hosts.host_store import Host
from slipway.yard.machines.hosts.instances import HostInstance
from slipway.yard.machines.hosts.planning import plain, plan
from slipway.yard.machines.isolation.tiers import best_tier

log = logging.getLogger("yard.hosts")

HOSTS_VARIABLE = "SLIPWAY_YARD_HOSTS"
NO_HOSTS = "none"  # instances are then records of moto's, and no more
REPLACE_VARIABLE = "SLIPWAY_YARD_REPLACE_SECONDS"
REPLACE_S = 5.0  # until a dead instance is found unhealthy; minutes on AWS
END_TIMEOUT_S = 5.0
# Calls to these change which hosts there are, or what their firewalls let in.
WATCHED = ("autoscaling", "ec2")
ONLY_READ = ("Describe", "Get", "List")

_networks: dict[tuple[str, str], VpcNetwork] = {}  # (region, VPC)
_numbers: dict[tuple[str, str], int] = {}  # how many hosts each has had
_asked = threading.Event()
_started = threading.Lock()  # the first caller takes it forever
_working = threading.Lock()  # held while hosts are started and ended


def are_kept() -> bool:
    """Return True if instances are hosts and not just records."""
    return os.environ.get(HOSTS_VARIABLE) != NO_HOSTS


def noticed(service: str, operation: str) -> None:
    """Hear of a call that was carried out, and wake the reconciler if it may change hosts."""
    if not are_kept():
        return
    if service in WATCHED and not operation.startswith(ONLY_READ):
        wake()


def wake() -> None:
    _asked.set()
    if _started.acquire(blocking=False):
        atexit.register(reset)
        threading.Thread(target=_reconcile_forever, name="hosts reconciler", daemon=True).start()


def wake_if_kept() -> None:
    """Look at the hosts again, for something else than a call has changed."""
    if are_kept():
        wake()


def kill(host: Host) -> None:
    """Kill the host as a power failure would: no process on it hears a signal."""
    if best_tier().isolated:
        _network(host.instance).kill(host.number)
    elif host.link:
        host.link.power_off()


def wait_until_settled(timeout_s: float) -> bool:
    """Return True once everything asked for so far is done: hosts have booted, firewalls are set."""
    deadline = time.monotonic() + timeout_s
    with host_store.changed:
        return host_store.changed.wait_for(_is_settled, max(0.0, deadline - time.monotonic()))


def reset() -> None:
    """Every process of every host ends, and their folders go."""
    with _working:
        for host in host_store.hosts.values():
            host.is_expected_to_end = True
        for network in _networks.values():
            network.close()
        _networks.clear()
        for host in host_store.hosts.values():
            if host.link and not best_tier().isolated:
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
            _asked.clear()  # who asks from here on is looked after in the next round
            try:
                _reconcile()
            except Exception:
                log.exception("cannot reconcile the hosts with EC2")
        with host_store.changed:
            host_store.changed.notify_all()


def _reconcile() -> None:
    wanted = {instance.id: instance for instance in instances.wanted()}
    ending = [host for identifier, host in host_store.hosts.items() if identifier not in wanted]
    for host in ending:
        _tell_to_end(host)
    for host in ending:
        _end(host)
    for identifier, instance in wanted.items():
        if identifier not in host_store.hosts:
            _start(instance)
    for host in list(host_store.hosts.values()):
        if host.instance.id in wanted:
            host.instance = wanted[host.instance.id]  # its role and its tags change while it runs
            _set_firewall(host)
            _set_link(host)
    _close_empty_networks()
    _launch_missing()


def _start(instance: HostInstance) -> None:
    network = (instance.region, instance.vpc)
    _numbers[network] = _numbers.get(network, 0) + 1
    rules = _rules(instance)
    root = "machine image" if image_store.root_of(instance.image) else "this machine's files"
    host = Host(instance=instance, number=_numbers[network], root=root, firewall=rules, tier=best_tier().name)
    with host_store.changed:
        host_store.hosts[instance.id] = host
    session = HostSession(host, on_end=_has_ended)
    (_start_isolated if best_tier().isolated else _start_plain)(host, session)
    log.info("starting host %s as %s", instance.name, instance.id)


def _start_isolated(host: Host, session: HostSession) -> None:
    host.environment = plan.environment()
    file = plan.write(host.instance, best_tier(), host.firewall)
    host.link = _network(host.instance).start(host.number, file, session.hears)


def _start_plain(host: Host, session: HostSession) -> None:
    plain.make_folder_of_sshd()
    written = plan.write_plain(host.instance)
    host.environment, host.said = written.environment, written.said
    session.own_metadata = written.metadata
    host.link = start_plain(written.file, session.hears)


def _network(instance: HostInstance) -> VpcNetwork:
    network = (instance.region, instance.vpc)
    if network not in _networks or not _networks[network].is_alive():
        _networks[network] = VpcNetwork(best_tier().name, instance.vpc, _network_events(network))
    return _networks[network]


def _network_events(network: tuple[str, str]) -> Callable[[HostEvent], None]:
    """Handle what a network tells of its hosts; hosts themselves report over their own channels."""

    def heard(event: HostEvent) -> None:
        if event.name == "limited":
            log.warning("cannot make a host's link as bad as it should be: %s", event.said["why"])
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

    return heard


def _tell_to_end(host: Host) -> None:
    """Ask the host to shut down, as EC2 does before it turns an instance off."""
    host.is_expected_to_end = True
    if host.link and not host.ended.is_set():
        host.link.shut_down()


def _end(host: Host) -> None:
    if not host.ended.wait(END_TIMEOUT_S):
        kill(host)
    with host_store.changed:
        host_store.hosts.pop(host.instance.id, None)
    shutil.rmtree(plan.root() / host.instance.id, ignore_errors=True)
    log.info("host %s has ended", host.instance.name)


def _rules(instance: HostInstance) -> str:
    return firewall.ruleset(instances.rules(instance)) if firewall.is_enforced() else ""


def _set_firewall(host: Host) -> None:
    rules = _rules(host.instance)
    if rules != host.firewall and host.state != "dead":
        _network(host.instance).set_firewall(host.number, rules)
        host.firewall, host.link_faults = rules, {}


def _set_link(host: Host) -> None:
    """Make its link as slow and lossy as the faults say; a new firewall takes the losses with it."""
    faults = links.wanted()
    if faults != host.link_faults and host.state != "dead" and best_tier().isolated:
        _network(host.instance).set_link(host.number, faults)
        host.link_faults = faults


def _close_empty_networks() -> None:
    used = {(host.instance.region, host.instance.vpc) for host in host_store.hosts.values()}
    for network in set(_networks) - used:
        _networks.pop(network).close()


def _launch_missing() -> None:
    """A group whose launches were suspended starts what it lacks when they are resumed; moto waits."""
    from slipway.yard.machines.hosts.instances import is_suspended
    from slipway.yard.services.autoscaling import activities

    for group in instances.groups() if host_store.hosts or instances.wanted() else ():
        lacks = len(group.active_instances()) < (group.desired_capacity or 0)
        if lacks and not is_suspended(group, "Launch") and not activities.is_waiting(group):
            had = len(group.active_instances())
            group.set_desired_capacity(group.desired_capacity)
            if len(group.active_instances()) > had:  # less than it lacks where a quota ends it
                _asked.set()


def _has_ended(host: Host) -> None:
    """It died though nobody ended its instance: the group finds it unhealthy after a while."""
    _mark_unhealthy(host)
    timer = threading.Timer(_replace_s(), _replace, [host])
    timer.daemon = True
    timer.start()


def _mark_unhealthy(host: Host) -> None:
    for group in instances.groups():
        for state in group.instance_states:
            if state.instance.id == host.instance.id:
                state.health_status = "Unhealthy"


def _replace(host: Host) -> None:
    from slipway.yard.machines.hosts.instances import is_suspended

    group = next((each for each in instances.groups() if each.name == host.instance.group), None)
    is_known = any(each.id == host.instance.id for each in instances.wanted())
    stopped = group is None or any(
        is_suspended(group, process) for process in ("HealthCheck", "ReplaceUnhealthy", "Terminate")
    )
    if is_known and not stopped:
        log.info("replacing host %s", host.instance.name)
        own_client("ec2", host.instance.region).terminate_instances(InstanceIds=[host.instance.id])


def _replace_s() -> float:
    return float(os.environ.get(REPLACE_VARIABLE) or REPLACE_S)
