"""Roles that a call hands to a service: each needs iam:PassRole, with iam:PassedToService.

To add one: the parameter's name in _PARAMETERS; whom a service hands it to, if not to itself, in _PASSED_TO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import texts
from slipway.yard.permissions.calls.asked import ActionNeed, AskedCall, arn

_ROLES = frozenset(
    {
        "executionrole",
        "executionrolearn",
        "jobrolearn",
        "rolearn",
        "servicerole",
        "servicerolearn",
        "taskrolearn",
    }
)
_PROFILES = frozenset({"iaminstanceprofilearn", "instanceprofilename", "instancerole"})
# Where AWS passes it on to another service than the one that is called: (service, parameter) -> service.
_PASSED_TO: Mapping[tuple[str, str], str] = {
    ("batch", "executionrolearn"): "ecs-tasks",
    ("batch", "jobrolearn"): "ecs-tasks",
    ("ecs", "executionrolearn"): "ecs-tasks",
    ("ecs", "taskrolearn"): "ecs-tasks",
    ("elasticfilesystem", "rolearn"): "elasticfilesystem",
}
# What other services call something else: (service, parameter).
_ROLES_OF = frozenset({("lambda", "role")})
# These name a role and pass it to nobody.
_NO_PASSING = frozenset({"iam", "sts"})


def needs(call: AskedCall) -> Iterator[ActionNeed]:
    if call.service in _NO_PASSING:
        return
    profile = call.parameters.get("IamInstanceProfile")  # EC2's, with an Arn or a Name inside
    for _, value in texts(profile):
        yield from _of_profile(value)
    for name, value in texts({key: item for key, item in call.parameters.items() if item is not profile}):
        lowered = name.lower()
        if lowered in _PROFILES:
            yield from _of_profile(value)
        elif (
            lowered in _ROLES or (call.service, lowered) in _ROLES_OF
        ) and "/aws-service-role/" not in value:
            to = _PASSED_TO.get((call.service, lowered), call.service)
            yield _pass(value, f"{to}.amazonaws.com")


def _of_profile(name_or_arn: str) -> Iterator[ActionNeed]:
    from moto.iam.models import iam_backends

    profiles: Any = iam_backends[ACCOUNT]["aws"].instance_profiles
    for profile in list(profiles.values()):
        if name_or_arn in (profile.name, profile.arn):
            yield from (_pass(role.arn, "ec2.amazonaws.com") for role in profile.roles)


def _pass(role: str, service: str) -> ActionNeed:
    resource = role if role.startswith("arn:") else arn("iam", "", f"role/{role}")
    return ActionNeed(action="iam:PassRole", resource=resource, keys={"iam:passedtoservice": (service,)})
