"""Launches what a launch template says, for the services that do so in EC2's stead: Auto Scaling and AWS PCS.

moto leaves out most of it. To carry out a further part of a launch template: a line of _arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.machines.hosts import reconciler
from slipway.yard.machines.hosts.apart import tier_of
from slipway.yard.machines.hosts.planning.plain import loopback
from slipway.yard.services.ec2 import launching, spot


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateLaunch:
    """A version of a launch template, and what the service that launches says besides or instead."""

    version: Any  # moto's
    image: str
    instance_type: str
    count: int
    subnet: str  # "" where there is no VPC
    zone: str
    user_data: Any  # moto's text in base64, or None
    tags: Mapping[str, str]
    market: str = ""  # "": on demand
    profile: Mapping[str, str] = field(default_factory=dict)
    placement_group: str = ""  # "": the template's
    security_groups: tuple[str, ...] = ()  # none: the template's
    at_shutdown: str = ""  # what becomes of an instance that shuts itself down; "": what the template says


def launch(wanted: TemplateLaunch, region: str) -> list[Any]:
    """Return moto's new instances; raises moto's error where EC2 would refuse them."""
    from moto.ec2.models import ec2_backends

    backend = ec2_backends[ACCOUNT][region]
    reservation = backend.run_instances(
        wanted.image,
        wanted.count,
        wanted.user_data,
        [],
        tags={"instance": {**wanted.version.instance_tags, **wanted.tags}},
        instance_market_options=wanted.market or {},
        **_arguments(wanted, region),
    )
    in_template: Mapping[str, Any] = wanted.version.data.get("Placement") or {}
    for instance in reservation.instances:
        instance.placement.group_name = wanted.placement_group or in_template.get("GroupName", "")
        instance.lifecycle = wanted.market or None
        _give_address(instance, wanted.tags)
        if wanted.profile:
            _give_profile(backend, instance, wanted.profile)
        launching.hold(instance)
        spot.launched(instance, region)
    return list(reservation.instances)


def _arguments(wanted: TemplateLaunch, region: str) -> dict[str, Any]:
    """Keep only the first interface: nobody here could reach the others of an EFA type."""
    version, data = wanted.version, wanted.version.data
    listed = data.get("NetworkInterfaces") or []
    first: Mapping[str, Any] = next((each for each in listed if int(each.get("DeviceIndex", 0)) == 0), {})
    interface = {"DeviceIndex": 0, "DeleteOnTermination": True}
    own = list(wanted.security_groups)
    return {
        "instance_type": wanted.instance_type,
        "is_instance_type_default": False,
        "placement": wanted.zone,
        "region_name": region,
        "subnet_id": wanted.subnet or None,
        "security_group_ids": own or first.get("Groups") or data.get("SecurityGroupIds") or [],
        "nics": [interface] if wanted.subnet else [],
        "launch_template": {"LaunchTemplateId": version.template.id, "Version": str(version.number)},
        "key_name": data.get("KeyName"),
        "instance_initiated_shutdown_behavior": wanted.at_shutdown
        or data.get("InstanceInitiatedShutdownBehavior"),
        "metadata_options": data.get("MetadataOptions") or {},
    }


def _give_address(instance: Any, tags: Mapping[str, str]) -> None:
    """Give hosts without a network of their own addresses of this machine."""
    if reconciler.are_kept() and not tier_of(tags).isolated:
        interface = instance.nics[0]
        interface.private_ip_address = loopback(interface.private_ip_address)


def _give_profile(ec2: Any, instance: Any, profile: Mapping[str, str]) -> None:
    ec2.associate_iam_instance_profile(
        instance_id=instance.id,
        iam_instance_profile_name=profile.get("Name"),
        iam_instance_profile_arn=profile.get("Arn"),
    )
