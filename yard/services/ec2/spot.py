"""Spot interruptions: EC2 gives notice, and takes the instance back two minutes later (EC2 user guide).

The notice is in the instance's metadata and goes to EventBridge. `slipway yard interrupt` sends one by hand,
and the fault `spot-interruptions` to every Spot instance some time after its launch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from slipway.yard.chaos import conditions
from slipway.yard.endpoint import ACCOUNT, own_client
from slipway.yard.machines.hosts import spot_notices
from slipway.yard.machines.settings import real_seconds
from slipway.yard.services.events import bus

log = logging.getLogger("yard.hosts")

SPOT = "spot"
NOTICE_S = 120.0
DETAIL_TYPE = "EC2 Spot Instance Interruption Warning"


def launched(instance: Any, region: str) -> None:
    """Set the end of a Spot instance that was just launched, where the fault is on."""
    if instance.lifecycle == SPOT and (after_s := conditions.seconds("spot-interruptions", "instance")):
        _later(after_s, lambda: _interrupt_if_there(instance, region))


def interrupt(instance: Any, region: str) -> datetime:
    """Give notice, and return when the instance ends. ValueError for one that is not bought as Spot."""
    if instance.lifecycle != SPOT:
        raise ValueError(
            f"{instance.id} is {instance.lifecycle or 'on-demand'}; EC2 interrupts Spot instances only, "
            "such as those of a cluster with market = Market.SPOT; to lose any other: slipway yard kill-node"
        )
    if (known := spot_notices.of(instance.id)) is not None:
        return known
    lasts_s = real_seconds(NOTICE_S)
    ends_at = datetime.now(UTC) + timedelta(seconds=lasts_s)
    spot_notices.give(instance.id, ends_at)
    conditions.count("spot-interruptions")
    bus.emit(_warning(instance.id, region))
    log.info("EC2 reclaims Spot instance %s at %s", instance.id, ends_at.isoformat(timespec="seconds"))
    _later(lasts_s, lambda: _terminate_if_there(instance, region))
    return ends_at


def _interrupt_if_there(instance: Any, region: str) -> None:
    if instance.state == "running":
        interrupt(instance, region)


def _terminate_if_there(instance: Any, region: str) -> None:
    if instance.state == "running":
        own_client("ec2", region).terminate_instances(InstanceIds=[instance.id])


def _warning(instance_id: str, region: str) -> bus.ServiceEvent:
    return bus.ServiceEvent(
        source="aws.ec2",
        detail_type=DETAIL_TYPE,
        region=region,
        resources=(f"arn:aws:ec2:{region}:{ACCOUNT}:instance/{instance_id}",),
        detail={"instance-id": instance_id, "instance-action": "terminate"},
    )


def _later(seconds: float, do: Callable[[], object]) -> None:
    timer = threading.Timer(seconds, do)
    timer.daemon = True
    timer.start()
