"""What the Systems Manager agent of a host may do with the host's role; the yard acts in its place.

A host without a role is managed all the same, as in an account with Default Host Management Configuration.
Source: Systems Manager user guide, "ec2messages, ssmmessages, and other API operations"; "Configuring
Amazon CloudWatch Logs for Run Command".
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway.yard.errors import ApiError
from slipway.yard.machines.hosts import host_store
from slipway.yard.machines.hosts.host_store import Host
from slipway.yard.machines.hosts.instance_role import session_of
from slipway.yard.permissions import roles
from slipway.yard.permissions.calls.asked import ActionNeed, arn

_HAS_SYSTEM = ("booting", "running", "failed")  # of a host's states; the last one unless it is down
_CHANNELS = ("CreateControlChannel", "OpenControlChannel", "CreateDataChannel", "OpenDataChannel")


def is_managed(host: Host) -> bool:
    """Return True if the host's agent could register and wait for commands.

    It is one of a system's services: another one that failed does not keep it from answering.
    """
    instance = host.instance
    if instance.is_service or host.state not in _HAS_SYSTEM or host_store.is_down(host):
        return False
    own = arn("ec2", instance.region, f"instance/{instance.id}")
    register = ActionNeed(action="ssm:UpdateInstanceInformation", resource=own)
    channels = (ActionNeed(action=f"ssmmessages:{act}") for act in _CHANNELS)
    return not _refused(host, iter((register, *channels)))


def may_log(host: Host, group: str, stream: str) -> bool:
    """Return True if the agent may write a command's output there; it looks for both first."""
    region = host.instance.region
    logs = arn("logs", region, f"log-group:{group}:log-stream:")
    groups = arn("logs", region, "log-group::log-stream:")
    return not _refused(
        host,
        iter(
            (
                ActionNeed(action="logs:DescribeLogGroups", resource=groups),
                ActionNeed(action="logs:DescribeLogStreams", resource=logs),
                ActionNeed(action="logs:CreateLogStream", resource=logs + stream),
                ActionNeed(action="logs:PutLogEvents", resource=logs + stream),
            )
        ),
    )


def _refused(host: Host, needs: Iterator[ActionNeed]) -> bool:
    if not host.instance.role:
        return False
    try:
        return bool(roles.refused(session_of(host.instance), host.instance.region, needs))
    except ApiError:  # EC2 may not assume the role, so the agent has no credentials
        return True
