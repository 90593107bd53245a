"""The default security group of a VPC as AWS makes it: moto leaves out the rule that admits its members."""

from __future__ import annotations

from typing import Any


def admit_own_members() -> None:
    """Give every default group that moto makes from now on its self rule."""
    from moto.ec2.models.security_groups import SecurityGroupBackend

    make = SecurityGroupBackend.create_security_group

    def make_and_admit(backend: Any, *args: Any, **kwargs: Any) -> Any:
        group = make(backend, *args, **kwargs)
        if group.is_default:
            _admit(backend, group)
        return group

    if make.__name__ != make_and_admit.__name__:  # once, however often the yard is configured
        SecurityGroupBackend.create_security_group = make_and_admit


def _admit(backend: Any, group: Any) -> None:
    backend.authorize_security_group_ingress(
        group.id,
        "-1",
        None,
        None,
        [],
        source_groups=[{"GroupId": group.id, "OwnerId": group.owner_id}],
        vpc_id=group.vpc_id,
    )
