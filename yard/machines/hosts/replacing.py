"""What becomes of an instance whose host ended though nobody ended the instance, and who takes its place.

EC2 sees an instance shut itself down, and does what the instance declares. The health checks of its Auto
Scaling group find it some time later, and replace it.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from slipway.yard.endpoint import ACCOUNT, own_client
from slipway.yard.machines.hosts import host_store, instances
from slipway.yard.machines.hosts.host_store import Host
from slipway.yard.machines.hosts.instances import is_suspended

log = logging.getLogger("yard.hosts")

REPLACE_VARIABLE = "SLIPWAY_YARD_REPLACE_SECONDS"
REPLACE_S = 5.0  # until a dead instance is found unhealthy; minutes on AWS
TERMINATE = "terminate"  # of an instance's InstanceInitiatedShutdownBehavior
# What EC2 says of an instance that shut itself down (API reference, StateReason).
_REASON = "Client.InstanceInitiatedShutdown"
_STOP_CHECKS = ("HealthCheck", "ReplaceUnhealthy", "Terminate")
_SHUTTING_DOWN, _TERMINATED = ("shutting-down", 32), ("terminated", 48)


def launch_missing() -> bool:
    """Start what groups lack whose launches were suspended and are resumed; moto waits. True if any did."""
    from slipway.yard.services.autoscaling import activities

    has_launched = False
    for group in instances.groups() if host_store.hosts or instances.wanted() else ():
        lacks = len(group.active_instances()) < (group.desired_capacity or 0)
        if lacks and not is_suspended(group, "Launch") and not activities.is_waiting(group):
            had = len(group.active_instances())
            group.set_desired_capacity(group.desired_capacity)
            has_launched |= len(group.active_instances()) > had  # less than it lacks where a quota ends it
    return has_launched


def has_ended(host: Host) -> None:
    """Hear that a host ended, or is impaired, though nobody ended its instance."""
    _mark_unhealthy(host)
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


def _mark_unhealthy(host: Host) -> None:
    for group in instances.groups():
        for state in group.instance_states:
            if state.instance.id == host.instance.id:
                state.health_status = "Unhealthy"


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
    group = next((group for group in instances.groups() if group.name == host.instance.group), None)
    recorded = _recorded(host)
    is_there = recorded is not None and recorded.state not in (_SHUTTING_DOWN[0], _TERMINATED[0])
    stays = group is None or any(is_suspended(group, process) for process in _STOP_CHECKS)
    if is_there and not stays:
        log.info("replacing host %s", host.instance.name)
        own_client("ec2", host.instance.region).terminate_instances(InstanceIds=[host.instance.id])


def _recorded(host: Host) -> Any:
    """moto's record of the instance; None where there is none any more."""
    from moto.ec2.models import ec2_backends

    found = ec2_backends[ACCOUNT][host.instance.region].all_instances()
    return next((each for each in found if each.id == host.instance.id), None)


def replace_s() -> float:
    """Return how long a dead instance goes unnoticed by who launched it."""
    return float(os.environ.get(REPLACE_VARIABLE) or REPLACE_S)
