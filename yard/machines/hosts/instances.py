"""Which instances should be hosts, read from moto: those that run and belong to an Auto Scaling group."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.machines.hosts.firewall import Rule

CLUSTER_TAG = "slipway:cluster"
_WAYS = ("ingress", "egress")


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

    @property
    def name(self) -> str:
        return self.hostname.partition(".")[0]


def wanted() -> list[HostInstance]:
    if "moto.autoscaling.models" not in sys.modules:
        return []
    return [_host_instance(group, instance) for group, instance in _members()]


def are_pending() -> bool:
    """Return True while an instance of a group has not started to run."""
    if "moto.autoscaling.models" not in sys.modules:
        return False
    return any(state.instance.state == "pending" for group in groups() for state in group.instance_states)


def rules(instance: HostInstance) -> tuple[Rule, ...]:
    """Return the rules of the instance's security groups, with groups and prefix lists as addresses."""
    backend = _ec2(instance.region)
    recorded = backend.get_instance(instance.id)
    groups = {group.id: group for interface in recorded.nics.values() for group in interface.group_set}
    return tuple(
        Rule(way=way, protocol=rule.ip_protocol, first=rule.from_port, last=rule.to_port, peers=peers)
        for group in groups.values()
        for way in _WAYS
        for rule in list(getattr(group, f"{way}_rules"))
        if (peers := tuple(_peers(backend, rule)))
    )


def groups() -> list[Any]:
    """moto's, of every region that was used."""
    from moto.autoscaling.models import autoscaling_backends

    backends = list(autoscaling_backends[ACCOUNT].values())
    return [group for backend in backends for group in list(backend.autoscaling_groups.values())]


def _members() -> Iterator[tuple[Any, Any]]:
    for group in groups():
        for state in list(group.instance_states):
            if state.instance.state == "running" and state.instance.vpc_id:
                yield group, state.instance


def _host_instance(group: Any, instance: Any) -> HostInstance:
    tags = {tag["key"]: tag["value"] for tag in instance.get_tags()}
    vpc = _ec2(group.region).vpcs[instance.vpc_id]
    association = _ec2(group.region).iam_instance_profile_associations.get(instance.id)
    profile = association.iam_instance_profile if association else None
    return HostInstance(
        id=instance.id,
        region=group.region,
        group=group.name,
        cluster=tags.get(CLUSTER_TAG, group.name),
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


def _ec2(region: str) -> Any:
    from moto.ec2.models import ec2_backends

    return ec2_backends[ACCOUNT][region]


def _peers(backend: Any, rule: Any) -> Iterator[str]:
    for word in ("CidrIp", "CidrIpv6"):
        if word in rule.ip_range:
            yield rule.ip_range[word]
    if other := rule.source_group.get("GroupId"):
        yield from _addresses(backend, other)
    if found := backend.managed_prefix_lists.get(rule.prefix_list_id):
        # Those of AWS's own services are empty: S3 is not in the VPC, but behind the yard's door.
        yield from (entry["Cidr"] for entry in found.entries.get(found.version) or ())


def _addresses(backend: Any, group: str) -> Iterator[str]:
    for instance in backend.all_instances():
        if instance.state == "running":
            for interface in instance.nics.values():
                if any(each.id == group for each in interface.group_set):
                    yield f"{interface.private_ip_address}/32"


def is_suspended(group: Any, process: str) -> bool:
    return any(each["ProcessName"] == process for each in group.suspended_processes)
