"""Finds the instances that should be hosts, those of Auto Scaling and AWS PCS, and replaces dead ones."""

from __future__ import annotations

import ipaddress
import logging
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from slipway.jobs.words import slurm
from slipway.yard.endpoint import ACCOUNT, own_client
from slipway.yard.machines.hosts import host_store, service_hosts
from slipway.yard.machines.hosts.firewall import Rule
from slipway.yard.machines.hosts.host_store import Host, HostInstance
from slipway.yard.moto_backends import moto_backend

CLUSTER_TAG = "slipway:cluster"


def wanted() -> list[HostInstance]:
    """Return the instances that should be hosts, and the services' own hosts."""
    found = [_host_instance(where, owner, instance) for where, owner, instance in _members()]
    return [*found, *service_hosts.wanted()]


def are_pending() -> bool:
    """Return True while an instance that will be a host is still pending."""
    grouped = (state.instance for group in groups() for state in group.instance_states)
    return any(instance.state == "pending" for instance in (*grouped, *(each for _, each in _of_pcs())))


def rules(instance: HostInstance) -> tuple[Rule, ...]:
    """Return the rules of the instance's security groups, with groups and prefix lists as addresses."""
    backend = moto_backend("ec2", instance.region)
    interfaces = _interfaces(backend, instance.id)
    groups = {group.id: group for interface in interfaces for group in interface.group_set}
    return tuple(
        Rule(way=way, protocol=rule.ip_protocol, first=rule.from_port, last=rule.to_port, peers=peers)
        for group in groups.values()
        for way in ("ingress", "egress")
        for rule in list(getattr(group, f"{way}_rules"))
        if (peers := tuple(_peers(backend, rule)))
    )


def groups() -> list[Any]:
    """Return moto's Auto Scaling groups, of every region that was used."""
    if "moto.autoscaling.models" not in sys.modules:
        return []
    from moto.autoscaling.models import autoscaling_backends

    backends = list(autoscaling_backends[ACCOUNT].values())
    return [group for backend in backends for group in list(backend.autoscaling_groups.values())]


def _members() -> Iterator[tuple[str, str, Any]]:
    """Yield the region, the name or id of the instance's group or cluster, and moto's instance."""
    for group in groups():
        for state in list(group.instance_states):
            if state.instance.state == "running" and state.instance.vpc_id:
                yield group.region, group.name, state.instance
    for region, instance in _of_pcs():
        if instance.state == "running":
            yield region, _tags(instance)[slurm.GROUP_TAG], instance


def _of_pcs() -> Iterator[tuple[str, Any]]:
    """Yield each instance that AWS PCS launched and that is not shutting down, with its region."""
    if "moto.ec2.models" not in sys.modules:
        return
    from moto.ec2.models import ec2_backends

    for region, backend in list(ec2_backends[ACCOUNT].items()):
        for instance in backend.all_instances():
            if instance.state in ("pending", "running") and slurm.GROUP_TAG in _tags(instance):
                yield region, instance


def _tags(instance: Any) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in instance.get_tags()}


def _host_instance(region: str, owner: str, instance: Any) -> HostInstance:
    tags = _tags(instance)
    vpc = moto_backend("ec2", region).vpcs[instance.vpc_id]
    association = moto_backend("ec2", region).iam_instance_profile_associations.get(instance.id)
    profile = association.iam_instance_profile if association else None
    return HostInstance(
        id=instance.id,
        region=region,
        group=owner,
        cluster=tags.get(CLUSTER_TAG, owner),
        vpc=instance.vpc_id,
        subnet=instance.subnet_id or "",
        address=instance.private_ip,
        prefix_length=ipaddress.ip_network(vpc.cidr_block).prefixlen,
        hostname=instance.private_dns_name,
        image=instance.image_id,
        instance_type=instance.instance_type,
        life_cycle=instance.lifecycle or "on-demand",
        zone=instance.availability_zone,
        user_data=str(instance.user_data or ""),
        profile_arn=str(profile.arn) if profile else "",
        role=str(profile.roles[0].name) if profile and profile.roles else "",
        launched_at=instance.launch_time.isoformat(),
        key_name=instance.key_name or "",
        tags=tags,
    )


def _peers(backend: Any, rule: Any) -> Iterator[str]:
    for word in ("CidrIp", "CidrIpv6"):
        if word in rule.ip_range:
            yield rule.ip_range[word]
    if other := rule.source_group.get("GroupId"):
        yield from _addresses(backend, other)
    if found := backend.managed_prefix_lists.get(rule.prefix_list_id):
        # Prefix lists of AWS's services are empty: hosts reach S3 through the yard's endpoint, not the VPC.
        yield from (entry["Cidr"] for entry in found.entries.get(found.version) or ())


def _addresses(backend: Any, group: str) -> Iterator[str]:
    running = [instance.id for instance in backend.all_instances() if instance.state == "running"]
    for identifier in (*running, *(instance.id for instance in service_hosts.wanted())):
        for interface in _interfaces(backend, identifier):
            if any(member.id == group for member in interface.group_set):
                yield f"{interface.private_ip_address}/32"


def _interfaces(backend: Any, identifier: str) -> list[Any]:
    """Return an instance's network interfaces, or the only one that EC2 shows of a service's host."""
    if identifier in backend.enis:
        return [backend.enis[identifier]]
    found = {instance.id: instance for instance in backend.all_instances()}
    return list(found[identifier].nics.values()) if identifier in found else []


def is_suspended(group: Any, process: str) -> bool:
    return any(suspended["ProcessName"] == process for suspended in group.suspended_processes)


# Handles hosts that ended although nobody ended the instance. If the instance shut itself down, EC2 stops or
# terminates it, as the instance declares. Some time later the health check of its group replaces it.
log = logging.getLogger("yard.hosts")

REPLACE_VARIABLE = "SLIPWAY_YARD_REPLACE_SECONDS"
REPLACE_S = 5.0  # until the health check finds a dead instance; minutes on AWS
TERMINATE = "terminate"  # a value of InstanceInitiatedShutdownBehavior
# EC2's StateReason for an instance that shut itself down (API reference).
_REASON = "Client.InstanceInitiatedShutdown"
_STOP_CHECKS = ("HealthCheck", "ReplaceUnhealthy", "Terminate")
_SHUTTING_DOWN, _TERMINATED = ("shutting-down", 32), ("terminated", 48)

# (region, name) -> group; Auto Scaling will try again.
groups_without_capacity: dict[tuple[str, str], Any] = {}


def launch_missing() -> bool:
    """Launch what groups lack after launches were resumed, since moto does not; return True if any did."""
    has_launched = False
    for group in groups() if host_store.hosts or wanted() else ():
        lacks = len(group.active_instances()) < (group.desired_capacity or 0)
        waits = is_suspended(group, "Launch") or (group.region, group.name) in groups_without_capacity
        if lacks and not waits:
            had = len(group.active_instances())
            group.set_desired_capacity(group.desired_capacity)
            has_launched |= len(group.active_instances()) > had  # a quota may stop it early
    return has_launched


def has_ended(host: Host) -> None:
    """Handle a host that ended or is impaired although nobody ended its instance."""
    for group in groups():
        for state in group.instance_states:
            if state.instance.id == host.instance.id:
                state.health_status = "Unhealthy"
    if host.was_shut_down and not host.instance.is_service:
        _shut_instance_down(host)
    timer = threading.Timer(replace_s(), _replace, [host])
    timer.daemon = True
    timer.start()


def keep_shutting_down(host: Host) -> None:
    """Show a terminated instance as shutting down, as EC2 does, while its host still runs and may write."""
    recorded = _recorded(host)
    if recorded is not None and recorded.state == _TERMINATED[0]:
        recorded._state.name, recorded._state.code = _SHUTTING_DOWN


def turned_off(host: Host) -> None:
    """Show the instance of a host that has ended as terminated."""
    recorded = _recorded(host)
    if recorded is not None and recorded.state == _SHUTTING_DOWN[0]:
        recorded._state.name, recorded._state.code = _TERMINATED


def _shut_instance_down(host: Host) -> None:
    recorded = _recorded(host)
    if recorded is None:
        return
    client = own_client("ec2", host.instance.region)
    if recorded.instance_initiated_shutdown_behavior == TERMINATE:
        client.terminate_instances(InstanceIds=[host.instance.id])
    else:
        client.stop_instances(InstanceIds=[host.instance.id])
    recorded.state_reason.code = _REASON
    recorded.state_reason.message = f"{_REASON}: Instance initiated shutdown"
    log.info("instance %s shut itself down, and is %s", host.instance.id, recorded.state)


def _replace(host: Host) -> None:
    group = next((group for group in groups() if group.name == host.instance.group), None)
    recorded = _recorded(host)
    is_there = recorded is not None and recorded.state not in (_SHUTTING_DOWN[0], _TERMINATED[0])
    stays = group is None or any(is_suspended(group, process) for process in _STOP_CHECKS)
    if is_there and not stays:
        log.info("replacing host %s", host.instance.name)
        own_client("ec2", host.instance.region).terminate_instances(InstanceIds=[host.instance.id])


def _recorded(host: Host) -> Any:
    """Return moto's record of the instance; None if it is gone."""
    found = moto_backend("ec2", host.instance.region).all_instances()
    return next((instance for instance in found if instance.id == host.instance.id), None)


def replace_s() -> float:
    """Return how long it takes until a dead instance is replaced."""
    return float(os.environ.get(REPLACE_VARIABLE) or REPLACE_S)
