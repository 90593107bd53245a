"""The session of a host's role, as EC2 assumes it for the instance."""

from __future__ import annotations

from dataclasses import replace

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.machines.hosts.host_instance import HostInstance
from slipway.yard.permissions import roles
from slipway.yard.permissions.sessions import RoleSession

EC2 = "ec2.amazonaws.com"


def session_of(instance: HostInstance) -> RoleSession:
    """Return it with where it stands; raise ApiError where the role does not trust EC2."""
    return replace(
        roles.assume(instance.role, EC2, instance.id),
        vpc=instance.vpc,
        address=instance.address,
        instance_arn=f"arn:aws:ec2:{instance.region}:{ACCOUNT}:instance/{instance.id}",
    )
