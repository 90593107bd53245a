"""Launches instances from a launch template, for Auto Scaling and AWS PCS; Spot interruptions are here, too.

moto ignores most of a launch template. To support another part of it: a line of _arguments.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from slipway.yard.chaos import conditions
from slipway.yard.endpoint import ACCOUNT, own_client
from slipway.yard.machines.hosts import metadata, reconciler
from slipway.yard.machines.hosts.boot_ways import tier_of
from slipway.yard.machines.hosts.planning.plain import loopback
from slipway.yard.machines.settings import real_seconds
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.ec2 import launches
from slipway.yard.services.events import bus


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateLaunch:
    """A version of a launch template, and the values that the launching service adds or replaces."""

    version: Any  # moto's object
    image: str
    instance_type: str
    count: int
    subnet: str  # "": no VPC
    zone: str
    user_data: Any  # in base64, or None
    tags: Mapping[str, str]
    market: str = ""  # "": On-Demand
    profile: Mapping[str, str] = field(default_factory=dict)
    placement_group: str = ""  # "": the template's
    security_groups: tuple[str, ...] = ()  # empty: the template's
    at_shutdown: str = ""  # InstanceInitiatedShutdownBehavior; "": the template's


def launch(wanted: TemplateLaunch, region: str) -> list[Any]:
    """Launch, and return moto's new instances; raise moto's error if EC2 would refuse."""
    backend = moto_backend("ec2", region)
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
        if reconciler.are_kept() and not tier_of(wanted.tags).isolated:
            interface = instance.nics[0]
            interface.private_ip_address = loopback(interface.private_ip_address)
        if wanted.profile:
            backend.associate_iam_instance_profile(
                instance_id=instance.id,
                iam_instance_profile_name=wanted.profile.get("Name"),
                iam_instance_profile_arn=wanted.profile.get("Arn"),
            )
        launches.hold(instance)
        launched(instance, region)
    return list(reservation.instances)


def _arguments(wanted: TemplateLaunch, region: str) -> dict[str, Any]:
    """Return moto's arguments, with only the first interface: the yard does not connect EFA's others."""
    version, data = wanted.version, wanted.version.data
    listed = data.get("NetworkInterfaces") or []
    first: Mapping[str, Any] = next((each for each in listed if int(each.get("DeviceIndex", 0)) == 0), {})
    interface = {"DeviceIndex": 0, "DeleteOnTermination": True}
    groups = list(wanted.security_groups)
    return {
        "instance_type": wanted.instance_type,
        "is_instance_type_default": False,
        "placement": wanted.zone,
        "region_name": region,
        "subnet_id": wanted.subnet or None,
        "security_group_ids": groups or first.get("Groups") or data.get("SecurityGroupIds") or [],
        "nics": [interface] if wanted.subnet else [],
        "launch_template": {"LaunchTemplateId": version.template.id, "Version": str(version.number)},
        "key_name": data.get("KeyName"),
        "instance_initiated_shutdown_behavior": wanted.at_shutdown
        or data.get("InstanceInitiatedShutdownBehavior"),
        "metadata_options": data.get("MetadataOptions") or {},
    }


# Spot interruptions: EC2 gives notice, and reclaims the instance two minutes later (EC2 user guide). The
# notice is in the instance's metadata and goes to EventBridge. `slipway yard interrupt` triggers one;
# the fault `spot-interruptions` does so for every Spot instance some time after its launch.
log = logging.getLogger("yard.hosts")

SPOT = "spot"
NOTICE_S = 120.0
DETAIL_TYPE = "EC2 Spot Instance Interruption Warning"


def launched(instance: Any, region: str) -> None:
    """Schedule the interruption of a new Spot instance, if the fault is on."""
    if instance.lifecycle == SPOT and (after_s := conditions.seconds("spot-interruptions", "instance")):
        _later(after_s, instance, lambda: interrupt(instance, region))


def interrupt(instance: Any, region: str) -> datetime:
    """Give notice, and return when the instance ends; raise ValueError if it is not a Spot instance."""
    if instance.lifecycle != SPOT:
        raise ValueError(
            f"{instance.id} is {instance.lifecycle or 'on-demand'}; EC2 interrupts Spot instances only, "
            "such as those of a cluster with market = Market.SPOT; to lose any other: slipway yard kill-node"
        )
    if (known := metadata.interruption_of(instance.id)) is not None:
        return known
    lasts_s = real_seconds(NOTICE_S)
    ends_at = datetime.now(UTC) + timedelta(seconds=lasts_s)
    metadata.announce_interruption(instance.id, ends_at)
    conditions.count("spot-interruptions")
    bus.emit(
        bus.ServiceEvent(
            source="aws.ec2",
            detail_type=DETAIL_TYPE,
            region=region,
            resources=(f"arn:aws:ec2:{region}:{ACCOUNT}:instance/{instance.id}",),
            detail={"instance-id": instance.id, "instance-action": "terminate"},
        )
    )
    log.info("EC2 reclaims Spot instance %s at %s", instance.id, ends_at.isoformat(timespec="seconds"))
    _later(
        lasts_s, instance, lambda: own_client("ec2", region).terminate_instances(InstanceIds=[instance.id])
    )
    return ends_at


def _later(seconds: float, instance: Any, do: Callable[[], object]) -> None:
    """Do it after this time, if the instance still runs."""

    def act() -> None:
        if instance.state == "running":
            do()

    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
